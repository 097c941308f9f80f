"""The verbs about permission: approving and revoking, trusting a configuration, the keys that count."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping

import msgspec

from ordain.app.gate import Gate, given, meanwhile
from ordain.app.plans import PlanVerbs
from ordain.app.refusals import Refusals
from ordain.core.approval.approval import Principal
from ordain.core.approval.signature import PublicKey, fingerprint
from ordain.core.lineage.decision import persons_only
from ordain.core.lineage.lineage import PlanState
from ordain.core.lineage.workspace import Approver, enrolment, proof_of, revocation, trusting
from ordain.core.lint.settings import list_problems, named_sources
from ordain.core.plan.canonical import sha256, short_id
from ordain.core.plan.tool import HANDLER, ToolDefinition, ToolSource, reached
from ordain.core.policy.program import WORKSPACE_WORD
from ordain.core.policy.ruling import quoted
from ordain.core.policy.settings import Settings
from ordain.core.report.report import Approved, Review
from ordain.core.run.event import ApprovalRevoked, ApproverEnrolled, ApproverRevoked, ConfigTrusted
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.core.text.redaction import Redactor
from ordain.documents.settings import read_settings
from ordain.ports.ledger import Append
from ordain.ports.machine import Credential
from ordain.records.conflict import is_conflict
from ordain.records.surroundings import Surroundings


class Approvals:
    """What people permit in one workspace."""

    def __init__(self, here: Surroundings, gate: Gate, plans: PlanVerbs, refusals: Refusals) -> None:
        self._here, self._gate, self._plans, self._refusals = here, gate, plans, refusals
        self._asked: tuple[Mapping[str, ToolSource], Mapping[str, ToolDefinition]] | None = None
        """The servers that a configuration was tried with last, and what they have: a person who has read it does not
        wait for them once more."""

    async def approve(
        self, ref: str, by: Principal, shown: Review | None = None, credential: Credential | None = None
    ) -> Approved:
        """Record a person's permission for one run of exactly this plan, here and as things stand; nothing is recorded
        where that is no longer as it was `shown`. With a credential the approval is signed."""
        here, (stream, _) = self._here, self._here.records.current(ref)
        async with self._refusals.recording("approve", ref, by):
            self._plans.refuse_edited(ref, "approve")
            state, snapshot = self._here.records.lineage(stream), here.snapshot
            permission = await self._gate.permit(stream, state, by, shown, credential)
            if snapshot.workspace.workspace_id is None:
                snapshot = here.snapshot  # that id was recorded just now, as the first of all
            try:
                append = Append(stream=stream, expected=state.size, events=(given(permission),))
                await here.ledger.append(permission.approval.issued_at, here.unchanged(snapshot), append)
            except Refused as refused:
                if not is_conflict(refused):
                    raise
                raise meanwhile(state.plan_id) from refused
        approval = permission.approval
        self._plans.copies.write(stream, self._here.records.lineage(stream))
        return Approved(
            approval_id=approval.approval_id,
            plan_id=approval.plan_id,
            expires_at=approval.expires_at,
            tier=approval.tier,
            signed_by=approval.approver.name if permission.signature is not None else None,
            commit_command=f"ordain commit {short_id(approval.plan_id)}",
        )

    async def check_approvable(self, ref: str, by: Principal, signer: str | None = None) -> None:
        """Raise Refused where this person's yes could not count, so that nobody reads a plan in vain."""
        self._here.refuse_pretended(by)
        stream, state = self._here.records.current(ref)
        await self._gate.check_approvable(stream, state, by, signer)

    async def revoke(self, ref: str, by: Principal, reason: str = "") -> tuple[str, ...]:
        """End an approval, or every one of a plan, that no run has used; which ones. Anybody may."""
        async with self._refusals.recording("revoke", ref, by):
            ended = await self._revoke(ref, by, reason)
        self._plans.write_copies(open_only=True)
        return ended

    async def _revoke(self, ref: str, by: Principal, reason: str) -> tuple[str, ...]:
        records, text = self._here.records, self._here.redactor().text(reason)
        if ref.upper().startswith("APPROVAL-"):
            found = [
                (summary.stream, approval_id)
                for summary in self._here.ledger.plans()
                for approval_id in summary.state.permissions
                if approval_id.startswith(ref.upper())
            ]
            if len(found) > 1:
                raise refuse("E_PLAN_AMBIGUOUS", f"`{ref}` fits {len(found)} approvals.", "Give more letters.")
        else:
            stream = records.find_plan(ref)
            found = [(stream, approval_id) for approval_id in records.lineage(stream).permissions]
        if not found:
            detail = f"There is no approval `{ref}` that a run could still use."
            raise refuse("E_APPROVAL_NOT_FOUND", detail, command="ordain status")
        for stream, approval_id in found:

            def revoked(state: PlanState, approval_id: str = approval_id) -> ApprovalRevoked:
                if approval_id not in state.permissions:
                    raise refuse("E_APPROVAL_SPENT", f"{approval_id} was used or ended just now.")
                return ApprovalRevoked(approval_id=approval_id, by=by, reason=text)

            await records.decide(stream, revoked, self._here.now())
        return tuple(approval_id for _, approval_id in found)

    # --- Trusting --------------------------------------------------------------------------------------------------

    def configuration(self) -> tuple[bytes, str]:
        """The content of `ordain.toml` and its digest, to be read before trusting it; raises Refused on faults."""
        data = self._here.ports.workspace.configuration()
        if data is None:
            raise refuse("E_CONFIG", "There is no ordain.toml in this workspace.", command="ordain init")
        settings, problems = read_settings(data)
        settings = msgspec.structs.replace(settings, understand=self._here.ports.host.understanding(settings))
        problems = (*problems, *list_problems(settings, self._tools_to_try(settings)))
        problems += tuple(
            Problem(code="E_CONFIG", detail=f"ordain.toml has a section [tools.{name}], and `{name}` is built in.")
            for name in settings.sources
            if name in self._here.ports.toolbox.definitions()
        )
        problems += tuple(self._code_problems(settings))
        if settings.require_signature and not self._here.snapshot.workspace.active:
            detail = "approval.require_signature is true, and nobody is enrolled who could sign."
            problems += (Problem(code="E_CONFIG", detail=detail, command="ordain approver enroll"),)
        redactor = Redactor(self._here.ports.secrets.known(settings.secret_env, settings.secret_files)[0])
        lines = data.decode("utf-8", "replace").split("\n")
        problems += tuple(
            Problem(
                code="E_CONFIG",
                detail=f"ordain.toml holds a secret, or what looks like one, in line {number}.",
                hints=("It would be stored and shown; name a variable or a file instead.",),
            )
            for number, line in enumerate(lines, 1)
            if redactor.text(line) != line
        )
        if problems:
            raise Refused(problems)
        return data, sha256(data)

    def _code_problems(self, settings: Settings) -> Iterator[Problem]:
        """What would run outside the sandbox and be found in the workspace."""
        named = {f"tools.{name}": source for name, source in settings.sources.items()}
        for action in settings.actions.values():
            name = action.name.removeprefix(HANDLER)
            named[f"actions.{name}"] = ToolSource(python=action.python, files=action.files)
        named["notify.command"] = ToolSource(mcp=settings.notify)
        for where, source in named.items():
            fault, *hints = self._here.ports.sources.code_fault(source) or ("",)
            if fault:
                yield Problem(code="E_CONFIG", detail=f"ordain.toml: in {where}, {fault}.", hints=tuple(hints))

    def configuration_notes(self) -> Iterator[str]:
        """What a person should know of the commands in the configuration before trusting it."""
        settings = read_settings(self._here.ports.workspace.configuration() or b"")[0]
        named = {f"[tools.{name}] mcp": source.mcp for name, source in settings.sources.items()}
        named |= {
            f"[actions.{one.name.removeprefix(HANDLER)}] command": one.command for one in settings.actions.values()
        }
        for where, argv in {**named, "[notify] command": settings.notify}.items():
            if lost := self._here.ports.sources.lost_words(argv):
                words = [_in_workspace(word) if word in lost else word for word in argv]
                written = ", ".join(json.dumps(word, ensure_ascii=False) for word in words)
                yield (
                    f"{where} names {quoted(lost)} of the workspace, and is started in an empty directory. To mean the "
                    f"workspace, write: {where.split()[-1]} = [{written}]"
                )

    def _tools_to_try(self, settings: Settings) -> Mapping[str, ToolDefinition]:
        """The tools that a configuration's lists and rules are tried with. Only servers that are in force as they stand
        there are asked: nothing is started that nobody trusted."""
        tools = self._here.tools(settings)
        try:
            in_force = self._here.snapshot.settings
        except Refused:  # trusting another configuration may be what helps
            return tools
        trusted = {name: reached(source) for name, source in in_force.sources.items()}
        same = {name for name in named_sources(settings) if trusted.get(name) == reached(settings.sources[name])}
        # Asked as before, and told of with the effects that the configuration says.
        sources = {name: settings.sources[name] for name in same}
        if self._asked is None or self._asked[0] != sources:
            asked = msgspec.structs.replace(in_force, sources=sources)
            self._asked = sources, self._here.found_tools(asked, same)[0] if same else {}
        return {**self._asked[1], **tools}

    async def trust(self, shown: str, by: Principal, credential: Credential | None = None) -> None:
        """Make the configuration count whose digest was shown to the person, if it is still what is there."""
        async with self._refusals.recording("trust", shown, by):
            here = self._here
            persons_only("trust a configuration", by, "ordain trust")
            text, digest = self.configuration()
            if digest != shown:
                raise refuse("E_CONFIG", "ordain.toml was changed while it was being read.", command="ordain trust")
            identity, state = await here.identity(), here.snapshot.workspace
            signature = None
            if state.approvers:
                if credential is None:
                    detail = "Once an approver is enrolled, a configuration is trusted only with an enrolled key."
                    raise refuse("E_APPROVAL_SIGNATURE", detail, command="ordain trust")
                here.enrolled(credential.name)
                signature = await here.sign(credential, trusting(identity.id, state.size + 1, digest), by)
            event = ConfigTrusted(digest=digest, text=text.decode(), by=by, signature=signature)
            await here.record(state, event)

    # --- Enrolling -------------------------------------------------------------------------------------------------

    async def enroll(
        self, credential: Credential, by: Principal, vouching: Credential | None = None
    ) -> tuple[str, PublicKey]:
        """Let a person's key count here, making it where there is none, vouched for by an approver if there is one."""
        async with self._refusals.recording("enroll", credential.name, by):
            here = self._here
            persons_only("enroll an approver", by, "ordain approver enroll")
            identity, state = await here.identity(), here.snapshot.workspace
            self.check_enrolling(credential.name)
            if state.approvers and vouching is None:
                detail = "Somebody is enrolled here already, so an enrolled approver must sign for the next."
                raise refuse(
                    "E_APPROVAL_SIGNATURE", detail, command=f"ordain approver enroll {credential.name} --by NAME"
                )
            if vouching is not None:
                here.enrolled(vouching.name, state)
            key = here.ports.keyring.public_key(credential.name) or here.ports.keyring.create(credential)
            proof = await here.sign(credential, proof_of(identity.id, credential.name, key), by)
            signature = None
            if vouching is not None:
                state = here.snapshot.workspace
                said = enrolment(identity.id, state.size + 1, credential.name, key)
                signature = await here.sign(vouching, said, by)
            event = ApproverEnrolled(name=credential.name, key=key, by=by, proof=proof, signature=signature)
            await here.record(state, event)
            return fingerprint(key), key

    async def revoke_approver(
        self, name: str, by: Principal, reason: str = "", credential: Credential | None = None
    ) -> Approver:
        """Let a key count no longer; an enrolled approver, who may be its owner, signs that."""
        async with self._refusals.recording("revoke approver", name, by):
            here = self._here
            persons_only("revoke an approver", by, f"ordain approver revoke {shlex.quote(name)}")
            identity, state = await here.identity(), here.snapshot.workspace
            found = next((approver for approver in state.active if approver.name == name), None)
            if found is None:
                raise refuse("E_APPROVER", f"{name} is not enrolled here.", command="ordain approver list")
            if credential is None:
                detail = "Only an enrolled approver can revoke a key."
                raise refuse("E_APPROVAL_SIGNATURE", detail, command=f"ordain approver revoke {shlex.quote(name)}")
            here.enrolled(credential.name, state)
            if len(state.active) == 1:
                detail = (
                    f"{name} is the last approver: without one nothing could be trusted, enrolled or signed here again."
                )
                command = f"ordain approver enroll NAME --by {name}"
                raise refuse("E_APPROVER", detail, "Enroll another one first.", command=command)
            key = fingerprint(found.key)
            signature = await here.sign(credential, revocation(identity.id, state.size + 1, key), by)
            text = here.redactor().text(reason)
            await here.record(state, ApproverRevoked(key=key, by=by, reason=text, signature=signature))
            return found

    def check_signer(self, name: str) -> None:
        """Raise Refused where no key of this name could sign, before anybody is asked for a passphrase."""
        self._here.enrolled(name)

    def check_enrolling(self, name: str) -> None:
        """Raise Refused where a key of this name cannot be enrolled, before anybody is asked for a passphrase."""
        state, key = self._here.snapshot.workspace, self._here.ports.keyring.public_key(name)
        if any(approver.name == name for approver in state.active):
            raise refuse("E_APPROVER", f"{name} is enrolled already.", command="ordain approver list")
        if key is not None and fingerprint(key) in state.approvers:
            detail = f"The key of {name} that is kept here was revoked, and a revoked key never counts again."
            raise refuse("E_APPROVER", detail, "Enroll a key under another name.", command="ordain approver list")

    def keeps_key(self, name: str) -> bool:
        """Whether a key of this name is kept on this machine."""
        return self._here.ports.keyring.public_key(name) is not None


def _in_workspace(word: str) -> str:
    option, equals, path = word.partition("=") if word.startswith("-") else ("", "", word)
    return f"{option}{equals}{WORKSPACE_WORD}/{path}".removesuffix("/.").replace("/./", "/")
