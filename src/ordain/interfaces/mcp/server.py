"""A surface as an MCP server: the rim between our values and the official SDK, for both eras of the protocol. Every
answer is an envelope as in robot mode, redacted, as structure and as text; a refusal is one too, so that a model can
read it."""

from __future__ import annotations

import functools
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from ordain.core.approval.approval import Channel, Principal
from ordain.core.text.problem import Problem, Refused
from ordain.core.text.redaction import Redactor
from ordain.interfaces.mcp.argument import described, read_arguments, schema_of, unknown_arguments
from ordain.interfaces.mcp.subscription import Context, Subscriptions, Watcher
from ordain.interfaces.mcp.surface import (
    Answer,
    ClientCall,
    ProtocolTask,
    Surface,
    Tool,
    Workspaces,
    claimed_name,
)
from ordain.interfaces.mcp.tasks import TaskMethods, created, declared, refusal_words
from ordain.interfaces.mcp.texts import from_anywhere_in, next_call
from ordain.interfaces.robot import envelope as robot

_CACHED = CacheHint(ttl_ms=3_600_000, scope="public")
"""What does not change while the server runs: tools, prompts, kinds of resources."""

P = TypeVar("P")
R = TypeVar("R")
_A_LITTLE = 0.001
"""How much further something has come that has come no further: the protocol wants it to grow each time it is told."""
_log = logging.getLogger(__name__)


class _Lowlevel(Server[Any]):
    """The SDK's server, which says of itself only what is so: tools and prompts stay the same while it runs."""

    def get_capabilities(self, *args: Any, **settings: Any) -> types.ServerCapabilities:
        made = super().get_capabilities(*args, **settings)
        return made.model_copy(
            update={
                "tools": types.ToolsCapability(list_changed=False) if made.tools is not None else None,
                "prompts": types.PromptsCapability(list_changed=False) if made.prompts is not None else None,
            }
        )


class OrdainServer:
    """One server over one workspace, for any number of connections; `caller` tells in whose name a request comes."""

    def __init__(self, surface: Surface, workspaces: Workspaces, caller: Callable[[Context], str]) -> None:
        self.surface, self._workspaces, self._caller = surface, workspaces, caller
        self._tools = {tool.name: tool for tool in surface.tools}
        self._prompts = {prompt.name: prompt for prompt in surface.prompts}
        self.subscribing = Subscriptions(Watcher(surface, workspaces), self.call)
        self.lowlevel: Server[Any] = _Lowlevel(
            surface.name,
            version=surface.version,
            title=surface.title,
            instructions=surface.instructions,
            cache_hints={"tools/list": _CACHED, "prompts/list": _CACHED, "resources/templates/list": _CACHED},
            get_tool_input_schema=lambda name: schema_of(self._tools[name].arguments) if name in self._tools else None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._telling(self._list_resources),
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._telling(self.subscribing.subscribe),
            on_unsubscribe_resource=self.subscribing.unsubscribe,
            on_subscriptions_listen=self._telling(self.subscribing.listen),
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._telling(self._complete),
        )
        self.tasks: TaskMethods | None = None
        if surface.tasks is not None:
            self.tasks = TaskMethods(surface.tasks, self.call, self._late_result, self._shown)
            self.tasks.add_to(self.lowlevel)

    def call(self, context: Context) -> ClientCall:
        """The call that a request is."""
        told = -1.0

        async def progress(done: float, total: float | None, words: str) -> None:
            nonlocal told
            told = max(done, told + _A_LITTLE)
            await context.session.report_progress(told, total, words)

        takes_tasks = self.surface.tasks is not None and declared(context)
        client = context.session.client_params.client_info if context.session.client_params is not None else None
        agent = claimed_name(client.name, client.version) if client is not None else ""
        by = Principal(name=self._caller(context), channel=Channel.MCP, agent=agent)
        return ClientCall(by, self._workspaces, progress, takes_tasks=takes_tasks)

    async def _list_tools(self, context: Context, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(tool) for tool in self.surface.tools])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> Any:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await self._answered(tool, self.call(context), params.arguments)

    async def _answered(self, tool: Tool, call: ClientCall, given: Mapping[str, Any] | None) -> Any:
        """The result of a tool that was called, whatever became of it. That of an extension is no type of the SDK's."""
        started = time.monotonic()
        error: Problem | None = None
        try:
            try:
                arguments = read_arguments(tool.arguments, given)
            except Refused as refused:
                if unknown := unknown_arguments(tool.arguments, given):  # a slip in a value is only told
                    async with call.app() as app:
                        await app.refusals.record(tool.name, ", ".join(unknown), call.by, refused.problems)
                raise
            answer = await tool.call(call, arguments)
            if isinstance(answer, ProtocolTask):
                return self._shown(created(answer))
        except Refused as refused:
            error = robot.cause(refused.problems)
            following = tuple(map(next_call, robot.remedies(refused.problems)))
            answer = Answer(data=None, problems=tuple(refused.problems), next=following)
        except Exception as failure:
            _log.exception("%s failed", tool.name)
            error = robot.bug(failure)
            answer = Answer(data=None, problems=(error,))
        return self._result(answer, error, round((time.monotonic() - started) * 1000))

    def _result(self, answer: Answer, error: Problem | None, elapsed: int) -> types.CallToolResult:
        problems = answer.problems
        if answer.failure is not None:
            error, problems = answer.failure, (*problems, answer.failure)
        document = robot.envelope(answer.data, problems=problems, error=error, next_=answer.next, elapsed_ms=elapsed)
        value = self._shown(json.loads(document))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=robot.to_text(value))],
            structured_content=value,
            is_error=error is not None,
        )

    def _late_result(self, answer: Answer) -> dict[str, Any]:
        result = self._result(answer, None, 0)
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    def _shown(self, value: Any) -> Any:
        """What is told: with commands that work wherever a person stands, and without secrets."""
        try:
            app = self._workspaces()
            try:
                return app.workspace.redactor(trusted=True).value(from_anywhere_in(value, app.workspace.workspace_path))
            finally:
                app.let_go()
        except (Refused, OSError):  # no workspace that could be looked at: the refusal itself is told
            return Redactor({}).value(value)

    def _clean(self, text: str) -> str:
        return str(self._shown([text])[0])

    def _telling(self, handler: Callable[[Context, P], Awaitable[R]]) -> Callable[[Context, P], Awaitable[R]]:
        """A handler whose refusals are told in words, and not as an error of ours."""

        async def told(context: Context, params: P) -> R:
            try:
                return await handler(context, params)
            except Refused as refused:
                raise MCPError(types.INTERNAL_ERROR, self._words(refused)) from refused

        return told

    def _words(self, refused: Refused) -> str:
        return self._clean(refusal_words(refused.problems))

    async def _list_resources(self, context: Context, params: object) -> types.ListResourcesResult:
        listed = await self.surface.resources(self.call(context)) if self.surface.resources is not None else ()
        made = [types.Resource(uri=one.uri, name=one.name, title=one.title, mime_type=one.media_type) for one in listed]
        return types.ListResourcesResult(resources=made)

    async def _list_templates(self, context: Context, params: object) -> types.ListResourceTemplatesResult:
        made = [
            types.ResourceTemplate(uri_template=one.uri, mime_type=one.media_type, **_named(one))
            for one in self.surface.templates
            if "{" in one.uri
        ]
        return types.ListResourceTemplatesResult(resource_templates=made)

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        template, names = self.surface.resource(uri) or (None, {})
        if template is None:
            raise _no_resource(uri)
        try:
            content = await template.read(self.call(context), names)
        except Refused as refused:
            raise _no_resource(uri, f" ({self._words(refused)})") from refused
        text = self._clean(content.text)
        contents = types.TextResourceContents(uri=uri, mime_type=content.media_type, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def _list_prompts(self, context: Context, params: object) -> types.ListPromptsResult:
        made = []
        for one in self.surface.prompts:
            of = [(arg.name, arg.description, arg.required) for arg in one.arguments]
            taken = [types.PromptArgument(name=name, description=words, required=must) for name, words, must in of]
            made.append(types.Prompt(arguments=taken, **_named(one)))
        return types.ListPromptsResult(prompts=made)

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompt = self._prompts.get(params.name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        given = params.arguments or {}
        missing = [arg.name for arg in prompt.arguments if arg.required and arg.name not in given]
        if missing:
            raise MCPError(types.INVALID_PARAMS, f"Missing arguments: {', '.join(missing)}")
        try:
            text = await prompt.write(self.call(context), given)
        except Refused as refused:
            raise MCPError(types.INVALID_PARAMS, self._words(refused)) from refused
        content = types.TextContent(type="text", text=self._clean(text))
        return types.GetPromptResult(
            description=prompt.description, messages=[types.PromptMessage(role="user", content=content)]
        )

    async def _complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        values: Sequence[str] = ()
        if isinstance(params.ref, types.PromptReference) and params.ref.name in self._prompts:
            arguments = {arg.name: arg for arg in self._prompts[params.ref.name].arguments}
            argument = arguments.get(params.argument.name)
            if argument is not None and argument.complete is not None:
                values = await argument.complete(self.call(context), params.argument.value)
        return types.CompleteResult(
            completion=types.Completion(values=list(values[:100]), total=len(values), has_more=len(values) > 100)
        )


def _named(one: Any) -> dict[str, Any]:
    return {"name": one.name, "title": one.title, "description": one.description}


@functools.cache  # a gateway has a server for each of its clients, and their tools are the same
def _tool(tool: Tool) -> types.Tool:
    return types.Tool(
        **_named(tool),
        input_schema=described(schema_of(tool.arguments), dict(tool.words)) | {"additionalProperties": False},
        output_schema=envelope_schema(tool.results),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


def envelope_schema(results: Sequence[Any]) -> dict[str, Any]:
    """The schema of the envelope around a result. It says the form and leaves the words to `ordain schema`."""
    schema = schema_of(robot.Envelope)
    schema["properties"]["data"] = {"anyOf": [*map(schema_of, results), {"type": "null"}]}
    bare: dict[str, Any] = _bare(schema)
    return bare


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _bare(one) for name, one in value.items()} if key == "properties" else _bare(value)
        for key, value in schema.items()
        if key not in ("description", "title")
    }


def _no_resource(uri: str, why: str = "") -> MCPError:
    return MCPError(types.INVALID_PARAMS, f"Resource not found: {uri}{why}", {"uri": uri})
