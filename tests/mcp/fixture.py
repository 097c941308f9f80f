"""Our server with what the conformance suite asks for besides: `python -m tests.mcp.fixture WORKSPACE PORT_FILE`.

It is `OrdainServer` with the whole surface of `ordain mcp`, behind the same entrance, on a real socket. What the
scenarios of the suite call is added in two ways: what our surface can say (texts, prompts, what to subscribe to) is
said there, and what it has no use for (pictures, sampling, forms, logging, questions in the midst of a call) is put
before our handlers with the SDK's own means. Nothing of that is in `src`.

The suite cannot send a token. So, here and nowhere else, one is added to every request that has none.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
import struct
import sys
import warnings
import zlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from tests.mcp.task_fixture import add_raw_task_tools, with_task_tools
from tests.words import (
    PLAN_SURFACE,
    App,
    Application,
    Argument,
    ClientCall,
    Content,
    Context,
    ListedResource,
    OrdainServer,
    Prompt,
    Receive,
    ResourceTemplate,
    Scope,
    Send,
    http_application,
    http_caller,
    listed_plans,
    listen,
    open_clients,
    open_workspace,
    own_hosts,
    serve_http,
)

CallParams = types.CallToolRequestParams
Result = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[Context, CallParams], Awaitable[Result]]


def png() -> str:
    """One red point."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00")) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def wav() -> str:
    """A sound of one sample."""
    form = struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<Ih", 2, 0)
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


# --- What our surface can say --------------------------------------------------------------------------------------


async def _static(call: ClientCall, names: Mapping[str, str]) -> Content:
    return Content("This is the content of the static text resource.", "text/plain")


async def _filled_in(call: ClientCall, names: Mapping[str, str]) -> Content:
    one = names["id"]
    return Content(json.dumps({"id": one, "templateTest": True, "data": f"Data for ID: {one}"}))


async def _watched(call: ClientCall, names: Mapping[str, str]) -> Content:
    return Content("What somebody may subscribe to.", "text/plain")


def _never_grows(app: App, names: Mapping[str, str]) -> int:
    return 1


async def _listed(call: ClientCall) -> list[ListedResource]:
    added = [
        ListedResource("test://static-text", "static-text", "A text", "text/plain"),
        ListedResource("test://static-binary", "static-binary", "A picture", "image/png"),
        ListedResource("test://watched-resource", "watched-resource", "Something to subscribe to", "text/plain"),
    ]
    return [*added, *await listed_plans(call)]


async def _simple(call: ClientCall, given: Mapping[str, str]) -> str:
    return "This is a simple prompt for testing."


async def _with_arguments(call: ClientCall, given: Mapping[str, str]) -> str:
    return f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"


async def _cities(call: ClientCall, begun: str) -> list[str]:
    return [name for name in ("paris", "park", "party") if name.startswith(begun)]


async def _never_called(call: ClientCall, given: Mapping[str, str]) -> str:
    raise AssertionError("answered before")


def resource(uri: str, read: Any, media_type: str, **more: Any) -> ResourceTemplate:
    name = uri.removeprefix("test://")
    return ResourceTemplate(uri=uri, name=name, title=name, description=name, read=read, media_type=media_type, **more)


def prompt(name: str, write: Any, *arguments: Argument) -> Prompt:
    return Prompt(name=name, title=name, description=f"The suite's {name}", write=write, arguments=arguments)


SURFACE = msgspec.structs.replace(
    PLAN_SURFACE,
    resources=_listed,
    templates=(
        *PLAN_SURFACE.templates,
        resource("test://static-text", _static, "text/plain"),
        resource("test://template/{id}/data", _filled_in, "application/json"),
        resource("test://watched-resource", _watched, "text/plain", size=_never_grows),
    ),
    prompts=(
        *PLAN_SURFACE.prompts,
        prompt("test_simple_prompt", _simple),
        prompt(
            "test_prompt_with_arguments",
            _with_arguments,
            Argument("arg1", "The first", complete=_cities),
            Argument("arg2", "The second"),
        ),
        prompt("test_prompt_with_embedded_resource", _never_called, Argument("resourceUri", "Which one")),
        prompt("test_prompt_with_image", _never_called),
        prompt("test_input_required_result_prompt", _never_called),
    ),
)


# --- Tools of the suite --------------------------------------------------------------------------------------------

TOOLS: dict[str, tuple[Handler, dict[str, Any]]] = {}


def tool(name: str, **arguments: str) -> Callable[[Handler], Handler]:
    """A tool of the suite, with its arguments, which are all texts."""
    properties = {key: {"type": "string", "description": said} for key, said in arguments.items()}

    def add(handler: Handler) -> Handler:
        TOOLS[name] = handler, {"type": "object", "properties": properties, "required": [*arguments]}
        return handler

    return add


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


def embedded(uri: str, words: str, media_type: str = "text/plain") -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=media_type, text=words)
    return types.EmbeddedResource(type="resource", resource=contents)


PICTURE = types.ImageContent(type="image", data=png(), mime_type="image/png")
SOUND = types.AudioContent(type="audio", data=wav(), mime_type="audio/wav")
FIXED: dict[str, list[types.ContentBlock]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [PICTURE],
    "test_audio_content": [SOUND],
    "test_embedded_resource": [embedded("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        PICTURE,
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
}


def _fixed(contents: list[types.ContentBlock]) -> Handler:
    async def answer(context: Context, params: CallParams) -> Result:
        return types.CallToolResult(content=contents)

    return answer


for _name, _contents in FIXED.items():
    tool(_name)(_fixed(_contents))


@tool("test_error_handling")
async def _failing(context: Context, params: CallParams) -> Result:
    return types.CallToolResult(content=[text("This tool intentionally returns an error for testing")], is_error=True)


@tool("test_tool_with_progress")
async def _progressing(context: Context, params: CallParams) -> Result:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100, f"{done} of 100")
        await asyncio.sleep(0.05)
    return types.CallToolResult(content=[text("Done.")])


@tool("test_tool_with_logging")
@tool("test_logging_tool")
async def _logging(context: Context, params: CallParams) -> Result:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        with _deprecated():
            await context.session.send_log_message("info", words, related_request_id=context.request_id)
        await asyncio.sleep(0.05)
    return types.CallToolResult(content=[text("Logged.")])


@tool("test_sampling", prompt="What the model is asked")
async def _sampling(context: Context, params: CallParams) -> Result:
    asked = types.SamplingMessage(role="user", content=text(str((params.arguments or {})["prompt"])))
    with _deprecated():
        answer = await context.session.create_message([asked], max_tokens=100, related_request_id=context.request_id)
    said = answer.content.text if isinstance(answer.content, types.TextContent) else "nothing"
    return types.CallToolResult(content=[text(f"LLM response: {said}")])


async def _form(context: Context, message: str, properties: Mapping[str, Any], required: list[str]) -> Result:
    schema = {"type": "object", "properties": dict(properties), "required": required}
    answer = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
    said = f"action={answer.action}, content={json.dumps(answer.content or {})}"
    return types.CallToolResult(content=[text(f"User response: {said}")])


@tool("test_elicitation", message="What the person is asked")
async def _asking(context: Context, params: CallParams) -> Result:
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await _form(context, str((params.arguments or {})["message"]), properties, [*properties])


@tool("test_elicitation_sep1034_defaults")
async def _asking_with_defaults(context: Context, params: CallParams) -> Result:
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _form(context, "Who are you?", properties, [])


@tool("test_elicitation_sep1330_enums")
async def _asking_to_choose(context: Context, params: CallParams) -> Result:
    options = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _form(context, "Which ones?", properties, [])


# --- Schemas, headers and streams ----------------------------------------------------------------------------------


async def _fine(context: Context, params: CallParams) -> Result:
    return types.CallToolResult(content=[text("ok")])


TOOLS["json_schema_2020_12_tool"] = (
    _fine,
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
TOOLS["test_custom_header"] = (
    _fine,
    {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}, "required": ["region"]},
)


@tool("test_reconnection")
async def _reconnecting(context: Context, params: CallParams) -> Result:
    """Close the stream in the midst of the call: the client comes back for the answer, after the time it was told."""
    assert context.close_sse_stream is not None, "no store of events, so nothing could be told later"
    await context.close_sse_stream()
    await asyncio.sleep(0.2)
    return types.CallToolResult(content=[text("Told on the stream that was opened again.")])


class MemoryEvents(EventStore):
    """What was told on streams, for clients that come back. The scenarios of 2025-11-25 ask for it."""

    def __init__(self) -> None:
        self._told: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._told.append((stream_id, message))
        return str(len(self._told))

    async def replay_events_after(
        self, last_event_id: str, send_callback: Callable[[EventMessage], Awaitable[None]]
    ) -> str | None:
        last = int(last_event_id)
        if not 0 < last <= len(self._told):
            return None
        stream, _ = self._told[last - 1]
        for number, (one, message) in enumerate(self._told[last:], last + 1):
            if one == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


@contextlib.contextmanager
def _deprecated() -> Any:
    """Around what the SDK keeps for clients of before 2026-07-28 only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        yield


# --- Questions in the midst of a call ------------------------------------------------------------------------------


def question(message: str, **properties: str) -> types.ElicitRequest:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": [*properties],
    }
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def prompting(words: str, most: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(words))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=most))


def asked(requests: Mapping[str, types.InputRequest], state: str | None = None) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=dict(requests), request_state=state)


def done(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[text(words)])


def given(params: Any, key: str) -> Any:
    """What was answered to one question, if it was."""
    return (params.input_responses or {}).get(key)


def accepted(params: Any, key: str, field: str) -> Any:
    answer = given(params, key)
    return answer.content.get(field) if isinstance(answer, types.ElicitResult) and answer.content else None


@tool("test_input_required_result_elicitation")
async def _ask_name(context: Context, params: CallParams) -> Result:
    name = accepted(params, "user_name", "name")
    return done(f"Hello, {name}!") if name else asked({"user_name": question("What is your name?", name="string")})


@tool("test_input_required_result_sampling")
async def _ask_model(context: Context, params: CallParams) -> Result:
    answer = given(params, "capital_question")
    if answer is None:
        return asked({"capital_question": prompting("What is the capital of France?", 100)})
    return done(answer.content.text)


@tool("test_input_required_result_list_roots")
async def _ask_roots(context: Context, params: CallParams) -> Result:
    answer = given(params, "client_roots")
    if answer is None:
        return asked({"client_roots": types.ListRootsRequest()})
    return done(" ".join(str(root.uri) for root in answer.roots))


@tool("test_input_required_result_request_state")
@tool("test_input_required_result_tampered_state")
async def _ask_with_state(context: Context, params: CallParams) -> Result:
    if params.request_state == "asked" and given(params, "confirm") is not None:
        return done("state-ok")
    return asked({"confirm": question("Please confirm", ok="boolean")}, "asked")


@tool("test_input_required_result_multiple_inputs")
async def _ask_for_three(context: Context, params: CallParams) -> Result:
    keys = ("user_name", "greeting", "client_roots")
    if params.request_state == "three" and all(given(params, key) is not None for key in keys):
        return done("Thank you for all three.")
    requests = (
        question("What is your name?", name="string"),
        prompting("Generate a greeting", 50),
        types.ListRootsRequest(),
    )
    return asked(dict(zip(keys, requests, strict=True)), "three")


@tool("test_input_required_result_multi_round")
async def _ask_twice(context: Context, params: CallParams) -> Result:
    if params.request_state == "second" and given(params, "step2") is not None:
        return done("Both are answered.")
    if params.request_state == "first" and given(params, "step1") is not None:
        return asked({"step2": question("Step 2: What is your favorite color?", color="string")}, "second")
    return asked({"step1": question("Step 1: What is your name?", name="string")}, "first")


@tool("test_input_required_result_capabilities")
async def _ask_what_is_known(context: Context, params: CallParams) -> Result:
    able = context.session.client_capabilities
    requests: dict[str, types.InputRequest] = {}
    if able is not None and able.sampling is not None:
        requests["model"] = prompting("Say something", 20)
    if able is not None and able.elicitation is not None:
        requests["person"] = question("Say something", words="string")
    return asked(requests, "asked")


@tool("test_streaming_elicitation")
async def _ask_on_a_stream(context: Context, params: CallParams) -> Result:
    await context.session.report_progress(1, 2, "asking")
    return asked({"name": question("What is your name?", name="string")})


@tool("test_missing_capability")
async def _needs_sampling(context: Context, params: CallParams) -> Result:
    able = context.session.client_capabilities
    if able is None or able.sampling is None:
        required = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs sampling.", required)
    return done("The client can sample.")


# --- Put before our handlers ---------------------------------------------------------------------------------------


def add_suite(server: OrdainServer) -> None:
    """Let the server answer what the suite asks for; everything else is ours as before."""
    lowlevel = server.lowlevel
    ours = {
        method: entry.handler
        for method in ("tools/list", "tools/call", "resources/read", "prompts/get")
        if (entry := lowlevel.get_request_handler(method)) is not None
    }

    async def list_tools(context: Context, params: types.PaginatedRequestParams) -> types.ListToolsResult:
        listed = await ours["tools/list"](context, params)
        assert isinstance(listed, types.ListToolsResult)
        added = [
            types.Tool(name=name, description=f"The suite's {name}", input_schema=schema)
            for name, (_, schema) in TOOLS.items()
        ]
        return types.ListToolsResult(tools=[*listed.tools, *added])

    async def call_tool(context: Context, params: CallParams) -> Any:
        if params.name in TOOLS:
            return await TOOLS[params.name][0](context, params)
        return await ours["tools/call"](context, params)

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> Any:
        if str(params.uri) == "test://static-binary":
            contents = types.BlobResourceContents(uri=str(params.uri), mime_type="image/png", blob=png())
            return types.ReadResourceResult(contents=[contents])
        return await ours["resources/read"](context, params)

    async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> Any:
        def messages(*contents: types.ContentBlock) -> types.GetPromptResult:
            return types.GetPromptResult(
                messages=[types.PromptMessage(role="user", content=content) for content in contents]
            )

        if params.name == "test_prompt_with_image":
            return messages(PICTURE, text("Please analyze the image above."))
        if params.name == "test_prompt_with_embedded_resource":
            uri = (params.arguments or {})["resourceUri"]
            shown = embedded(uri, "Embedded resource content for testing.")
            return messages(shown, text("Please process the embedded resource above."))
        if params.name == "test_input_required_result_prompt":
            about = accepted(params, "user_context", "context")
            wanted = {"user_context": question("What context should the prompt use?", context="string")}
            return messages(text(f"In the context of {about}.")) if about else asked(wanted)
        return await ours["prompts/get"](context, params)

    async def set_level(context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        return types.EmptyResult()

    lowlevel.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    lowlevel.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    lowlevel.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)
    lowlevel.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)
    lowlevel.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    of_ours = lowlevel.get_tool_input_schema
    lowlevel.get_tool_input_schema = lambda name: TOOLS[name][1] if name in TOOLS else of_ours and of_ours(name)
    lowlevel.streamable_http_app = functools.partial(  # type: ignore[method-assign]
        lowlevel.streamable_http_app, event_store=MemoryEvents(), retry_interval=500
    )
    lowlevel.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="ordain"))


def with_token(inside: Application, token: str) -> Application:
    """Add the token that the suite cannot send."""
    added = (b"authorization", f"Bearer {token}".encode())

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not any(key == b"authorization" for key, _ in scope["headers"]):
            scope = {**scope, "headers": [*scope["headers"], added]}
        await inside(scope, receive, send)

    return application


def main() -> None:
    workspace, port_file = sys.argv[1:]
    server = OrdainServer(with_task_tools(SURFACE), lambda: open_workspace(workspace, exact=True), http_caller)
    add_raw_task_tools(server)
    add_suite(server)
    clients = open_clients(workspace)
    with listen("127.0.0.1", 0, ()) as listening:
        application = http_application(server, own_hosts(listening), clients.holder)
        Path(port_file).write_text(f"{listening.getsockname()[1]}\n")
        serve_http(with_token(application, clients.lend()), listening, server.subscribing.close)


if __name__ == "__main__":
    main()
