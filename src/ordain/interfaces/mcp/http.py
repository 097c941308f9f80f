"""The server over streamable HTTP, for both eras of the protocol: any number of clients, each by a token of its own and
called `mcp/NAME`. A session that one token began is another's never, as if it were not there."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings

from ordain.interfaces.http.entrance import PATH, Entrance, Scope, mark
from ordain.interfaces.http.server import BODY_MAX, serve_http
from ordain.interfaces.mcp.plan_surface import PLAN_SURFACE
from ordain.interfaces.mcp.server import OrdainServer
from ordain.interfaces.mcp.subscription import Context
from ordain.interfaces.mcp.surface import Workspaces


def http_caller(context: Context) -> str:
    """In whose name a request came: whoever its token was given to."""
    user = context.request.scope["user"] if context.request is not None else None
    assert isinstance(user, AuthenticatedUser), "only the entrance lets requests in"
    return f"mcp/{user.username}"


def serve_plans(
    workspaces: Workspaces, listening: socket.socket, hosts: Sequence[str], holder: Callable[[str], str | None]
) -> None:
    """Serve what `ordain mcp` offers, on a socket that is reached by these names, to whoever holds a token."""
    server = OrdainServer(PLAN_SURFACE, workspaces, http_caller)
    serve_http(http_application(server, hosts, holder), listening, server.subscribing.close)


def http_application(server: OrdainServer, hosts: Sequence[str], holder: Callable[[str], str | None]) -> Entrance:
    """The server as an ASGI application, with the entrance before it."""
    inside = server.lowlevel.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=BODY_MAX,
        # The entrance has looked at both, exactly.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Entrance(AuthContextMiddleware(inside), hosts, holder, _passed)


def _passed(scope: Scope, client: str, token: str) -> None:
    """Let the SDK know whose request it is. A client's next token does not take over what its last one began."""
    scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=client, scopes=[], subject=mark(token)))
