"""Messages of JSON-RPC as plain values, and what the protocol's two eras say in them. One reader reads and writes a
line: what is judged is what the server is sent, whatever else it could be taken for (a key that comes twice, for
one)."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

Id = str | int
Message = dict[str, Any]

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
REFUSED = -32010
"""What a request that is no call of a tool is refused with."""
_ENVELOPE = frozenset(["jsonrpc", "id", "method", "params", "result", "error"])
_PARAMS = frozenset(["_meta", "name", "arguments", "uri", "ref", "taskId"])
"""What says of a request whom it is for and what it is."""
_META = "io.modelcontextprotocol/"
_VERSION, _INFO, SUBSCRIPTION = f"{_META}protocolVersion", f"{_META}clientInfo", f"{_META}subscriptionId"


def read_line(line: bytes) -> Any:
    """The value of a line; raises ValueError."""
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def ambiguous_key(message: Mapping[str, Any]) -> str | None:
    """A key that some servers would take for another one, as they read keys without regard to case: to those a message
    would be another one than the one that was judged. None where there is no such key."""
    return _ambiguous(message, _ENVELOPE) or _ambiguous(params_of(message), _PARAMS)


def _ambiguous(said: Mapping[str, Any], meant: frozenset[str]) -> str | None:
    taken = {folded(key): key for key in meant}
    return next((key for key in said if taken.setdefault(folded(key), key) != key), None)


def folded(name: str) -> str:
    """A name as the most careless server may read it."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def written(message: Mapping[str, Any]) -> bytes:
    """The line of a message."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def answer(request: Id, result: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": request, "result": dict(result)}


def error(request: Id | None, code: int, words: str, data: Any = None) -> Message:
    said: Message = {"code": code, "message": words, **({"data": data} if data is not None else {})}
    return {"jsonrpc": "2.0", "id": request, "error": said}


def notification(method: str, params: Mapping[str, Any] | None = None) -> Message:
    return {"jsonrpc": "2.0", "method": method, **({"params": dict(params)} if params is not None else {})}


def params_of(message: Mapping[str, Any]) -> Message:
    """The params of a message; those that are no object are none."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def meta_of(params: Mapping[str, Any]) -> Message:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def is_modern(params: Mapping[str, Any]) -> bool:
    """Whether a request is of the era in which each says for itself which version it speaks."""
    return _VERSION in meta_of(params)


def envelope_of(params: Mapping[str, Any]) -> Message:
    """What a request of ours on a client's behalf must say of that client: all that its own says of itself."""
    meta = {key: value for key, value in meta_of(params).items() if key.startswith(_META)}
    return {"_meta": meta} if meta else {}


def client_info(params: Mapping[str, Any]) -> Any:
    """What a client calls itself, in the greeting of one era and every request of the other."""
    return meta_of(params).get(_INFO) or params.get("clientInfo")
