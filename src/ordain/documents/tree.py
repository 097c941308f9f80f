"""A whole plan from the tree of a JSON or YAML document. What authors may leave out or write otherwise is settled here,
before hashing; what the tree says beside the plan goes into the document's record, and its form is left to `shape`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from ordain.core.plan.canonical import plan_id
from ordain.core.plan.model import PLAN_VERSION, Action, Plan, Step
from ordain.core.plan.name import id_fault
from ordain.core.plan.role import fields
from ordain.core.text.limit import DEPTH_MAX, ID_LENGTH_MAX, NESTED_PLANS_MAX, STEPS_MAX, line_fault
from ordain.core.text.problem import Place, closest
from ordain.documents.document import (
    PROBLEMS_MAX,
    Document,
    LazyPlaces,
    Locate,
    Notation,
    Path,
    ProblemList,
    ReadValue,
    plan_unless_wrong,
)
from ordain.documents.include import STAND_IN, Beside, Includes
from ordain.documents.shape import RECORD_FIELDS, STEP_RECORD_FIELDS, path_text, shape, silent_shape
from ordain.documents.tree_writer import slug

# --- Partial ---------------------------------------------------------------------------------------------------------
# What can be read of a tree in which something is wrong. Only lint is given it; its problems were told before.

_STEP_LISTS = ("steps", "fallbacks")


def readable_plan(tree: Any) -> Plan | None:
    """The readable part of a plan's settled tree, if there is any."""
    if not isinstance(tree, dict):
        return None
    values = {key: value for key, value in tree.items() if key not in _STEP_LISTS}
    steps = {key: _readable_steps(tree.get(key)) for key in _STEP_LISTS}
    plan: Plan | None = _readable({"title": "", **values}, Plan, steps)
    return plan


def _readable_steps(trees: Any) -> tuple[Step, ...]:
    made = [silent_shape(tree, Step) or _readable(tree, Step, {}) for tree in trees] if isinstance(trees, list) else []
    return tuple(step for step in made if step is not None)


def _readable(tree: Any, into: type[msgspec.Struct], given: dict[str, Any]) -> Any:
    """A struct of those fields that can be read, each by itself; None where one is missing that there must be."""
    if not isinstance(tree, dict):
        return None
    values = dict(given)
    for field in fields(into):
        if field.name not in values and field.encode_name in tree:
            value = silent_shape(tree[field.encode_name], field.type)
            if value is not None:
                values[field.name] = value
        if field.required and field.name not in values:
            return None
    return into(**values)


# --- Tree ------------------------------------------------------------------------------------------------------------

TREE_DEPTH_MAX = DEPTH_MAX + 4 * (NESTED_PLANS_MAX + 2) + 4
"""How deep a whole document may be: a free value in a step, in as many plans as are told from too many by name."""

_MODEL_KEYS = frozenset(Step.__struct_fields__)
_UNSETTLED_ACTIONS = ("nested_plan", "validate_approval")
_NOTHING_MORE_TO_SAY = {"plan_version": PLAN_VERSION, "title": "…", "steps": []}
"""Stands in for a nested plan that was refused as a whole."""
_STEP_RECORD = frozenset(STEP_RECORD_FIELDS)
_ID_HINT = "Ids are ASCII letters, digits, `_` and `-`, at most 64, not a number and not `none`."


def read_tree(read: ReadValue, notation: Notation, includes: Includes | None = None) -> Document:
    """The document that this value of a whole file is."""
    if read.problems:
        return Document(problems=read.problems, notation=notation)
    beside = Beside(includes)
    tree = _Tree(read.locate, ProblemList(), beside)
    settled = tree.plan(read.value, (), "", 0)
    plan: Plan | None = tree.shaped(read.value, Plan, sound=read.depth <= DEPTH_MAX) if settled else None
    problems = tree.problems.in_order()
    whole = plan_unless_wrong(plan, problems)
    return Document(
        plan=whole,
        partial=(plan or readable_plan(read.value)) if settled and whole is None else None,
        problems=problems,
        places=LazyPlaces(tree.place, ("", *tree.places)),
        fields=LazyPlaces(lambda name: Place(line=(at := tree.locate((name,)))[0], column=at[1]), tree.fields),
        inner=beside.inner,
        notes=tuple(tree.notes),
        notation=notation,
        record=beside.record,
    )


def action_of_tree(
    value: Any, *, locate: Locate, problems: ProblemList, path: Path = (), step: str = "", beside: Beside | None = None
) -> Action | None:
    """The action that a tree describes, or None and all that is wrong with it. The tree is changed on the way; what
    there is to say of a nested plan is added to `beside`, where `step` is the step whose action it is."""
    tree = _Tree(lambda inner: locate((*path, *inner)), problems, beside or Beside())
    tree.action(value, (), f"{step}/", 0)
    action: Action | None = tree.shaped(value, Action)
    return action


class _Step(NamedTuple):
    """A step of the tree on its way to be one of the model."""

    value: dict[str, Any]
    path: Path
    id: str


class _Tree:
    """Settles one tree in place. A path names a part of the settled tree; `_moved` says where the author wrote it."""

    def __init__(self, locate: Locate, problems: ProblemList, beside: Beside) -> None:
        self._locate = locate
        self._moved: dict[Path, Path] = {}
        self.problems = problems
        self.places: dict[str, Path | int] = {}
        self.fields: tuple[str, ...] = ()
        """The plan's own fields that the author wrote."""
        self.beside = beside
        self.notes: list[tuple[str, str]] = []
        self._claimed: list[tuple[Path, Any]] = []

    def shaped(self, value: Any, into: Any, *, sound: bool = False) -> Any:
        """The settled tree as a plan or an action, or None."""
        if len(self.problems) >= PROBLEMS_MAX:
            return None
        made = shape(value, into, locate=self.locate, problems=self.problems, sound=sound)
        if made is not None:
            self._check_claims(made)
        return made

    def place(self, key: str) -> Place:
        line, column = self.locate(_path_of(self.places[key], ()) if key else ("title",))
        return Place(line=line, column=column, step=key or None)

    def locate(self, path: Path) -> tuple[int | None, int | None]:
        end = 0
        while end <= len(path):
            if path[:end] in self._moved:
                path, end = (*self._moved[path[:end]], *path[end:]), 0
            else:
                end += 1
        return self._locate(path)

    def add(self, code: str, detail: str, path: Path, *hints: str, step: str | None = None) -> None:
        line, column = self.locate(path)
        self.problems.about(step, line).add(code, detail, *hints, line=line, column=column)

    # --- Plans ---

    def plan(self, value: Any, path: Path, prefix: str, depth: int) -> bool:
        """Settle a plan; false where nothing more should be said about the tree."""
        if not isinstance(value, dict):
            return True
        if not self._version(value, path):
            return False
        self._take_record(value, path, prefix)
        steps, fallbacks = _list_of(value, "steps"), _list_of(value, "fallbacks")
        if steps == []:
            hint = "Write `steps`, a list of at least one."
            self.add("E_PLAN_NO_STEPS", "The plan has no steps.", (*path, "steps"), hint)
            value["steps"] = []
        if max(len(steps or ()), len(fallbacks or ())) > STEPS_MAX:
            self._too_many(path)
            return False
        self._refuse_lines(value, "title", path, None)
        taken: dict[str, Path | int] = {}
        ids, found = self._settle_ids(steps or [], path, taken)
        if not self._settle_fallbacks(value, fallbacks, found, len(ids), path, taken):
            return False
        if not prefix:
            self.places = taken
            self.fields = tuple(name for name in value if name in Plan.__struct_fields__)
        self._settle_needs(value, found, ids, path, prefix, taken)
        if prefix:
            for name, at in taken.items():
                line, column = self.locate(_path_of(at, path))
                self.beside.inner[f"{prefix}{name}"] = Place(line=line, column=column)
        for step in found:
            if "include" in step.value:
                self._include(step, prefix, depth)
            else:
                self.action(step.value.get("action"), (*step.path, "action"), f"{prefix}{step.id}/", depth)
        return True

    def _include(self, step: _Step, prefix: str, depth: int) -> None:
        at = (*step.path, "include")
        name, includes = step.value.pop("include"), self.beside.includes
        if step.value.get("action") is not None:
            self.add("E_STEP_ACTION", "The step has `include` and `action`.", at, "Keep one of them.", step=step.id)
            return
        line, _ = self.locate(at)
        plan = includes.plan(name, depth, self.beside.inner, f"{prefix}{step.id}", self.problems, line)
        tree = msgspec.to_builtins(plan) if plan is not None else STAND_IN
        step.value["action"] = {"type": "nested_plan", "plan": tree}

    def _version(self, value: dict[str, Any], path: Path) -> bool:
        version = value.get("plan_version")
        if version is None:
            value["plan_version"] = PLAN_VERSION
        elif type(version) is int and not 1 <= version <= PLAN_VERSION:
            detail = f"Plan version {version} is not known here; this version reads {PLAN_VERSION}."
            self.add("E_PLAN_VERSION", detail, (*path, "plan_version"))
            return False
        return True

    def _settle_ids(self, steps: list[Any], path: Path, taken: dict[str, Path | int]) -> tuple[list[str], list[_Step]]:
        """The ids of all steps in order, and the steps about which there is something to settle."""
        ids: list[str] = []
        found: list[_Step] = []
        for index, step in enumerate(steps):
            if type(step) is not dict:
                # For `shape` to refuse.
                ids.append("")
            elif _settled(step, index, ids, taken):
                ids.append(step["id"])
                taken[step["id"]] = index
            else:
                found.append(self._name(step, index + 1, index + 1, (*path, "steps", index), taken))
                ids.append(found[-1].id)
        return ids, found

    def _settle_fallbacks(
        self,
        value: dict[str, Any],
        fallbacks: list[Any] | None,
        found: list[_Step],
        count: int,
        path: Path,
        taken: dict[str, Path | int],
    ) -> bool:
        """Name the fallback steps, and move here those written inside a failure policy; false if too many."""
        for index, step in enumerate(fallbacks or ()):
            if type(step) is dict:
                found.append(self._name(step, count + index + 1, index + 1, (*path, "fallbacks", index), taken))
        owners = [(step.value.get("on_failure"), (*step.path, "on_failure"), step.id) for step in found]
        owners.append((value.get("on_failure"), (*path, "on_failure"), "plan"))
        tries: Counter[str] = Counter()
        # The list grows: a fallback step may have a policy with steps of its own.
        for policy, at, owner in owners:
            for inline, index, way in _inline_steps(policy):
                if fallbacks is None:
                    fallbacks = value["fallbacks"] = []
                if len(fallbacks) == STEPS_MAX:
                    self._too_many(path)
                    return False
                where = (*path, "fallbacks", len(fallbacks))
                self._moved[where] = (*at, *way)
                step = inline[index]
                if step.get("id") is None:
                    step["id"] = _free_id(step, owner, count + len(fallbacks) + 1, taken, tries)
                named = self._name(step, 0, None, where, taken)
                inline[index] = named.id
                fallbacks.append(step)
                found.append(named)
                owners.append((step.get("on_failure"), (*where, "on_failure"), named.id))
        return True

    def _too_many(self, path: Path) -> None:
        detail = f"The plan has more than {STEPS_MAX:,} steps."
        self.add("E_PLAN_TOO_MANY_STEPS", detail, (*path, "steps"), "Split it into several plans.")

    def _name(
        self, step: dict[str, Any], number: int, place: int | None, path: Path, taken: dict[str, Path | int]
    ) -> _Step:
        """Give a step its id and description, and take its number away; `place` is the number it must have."""
        given, description = step.get("id"), step.get("description")
        if description is None:
            description = _first_line(step) or given
        title = description if type(description) is str else ""
        name: str = given if type(given) is str else slug(title, number)
        fault = id_fault(name)
        if fault:
            self.add(*fault, (*path, "id"), _ID_HINT)
            name = slug(title, number)
        if name in taken:
            line, _ = self.locate(_path_of(taken[name], path[:-2]))
            detail = f"The id `{name}` is already that of the step on line {line}."
            at = path if given is None else (*path, "id")
            self.add("E_STEP_ID", detail, at, "Give this step an `id` of its own.", step=name)
        else:
            taken[name] = path
        if given is None:
            step["id"] = name
        if step.get("description") is None:
            step["description"] = title or name
        counted = step.pop("step_number", None)
        if counted is not None and (type(counted) is not int or place not in (None, counted)):
            wanted = "a whole number" if place is None else f"{place}; steps are numbered 1, 2, 3 … in order"
            self.add("E_PLAN_TYPE", f"`step_number` must be {wanted}.", (*path, "step_number"), step=name)
        return _Step(step, path, name)

    # --- What steps say about each other ---

    def _settle_needs(
        self,
        value: dict[str, Any],
        found: list[_Step],
        ids: list[str],
        path: Path,
        prefix: str,
        known: Mapping[str, Path | int],
    ) -> None:
        """Settle what needs all ids: `needs`, and preconditions that name a step by a foreign id."""
        aliases: dict[str, str] = {}
        doubled: dict[str, _Step] = {}
        foreign: list[_Step] = []
        for step in found:
            body = step.value
            if not _STEP_RECORD.isdisjoint(body):
                alias = self._take_step_record(step, prefix)
                if alias is not None and alias != step.id:
                    foreign.append(step)
                    if isinstance(alias, str) and alias not in known:
                        if alias in aliases:
                            doubled.setdefault(alias, step)
                        aliases.setdefault(alias, step.id)
            self._refuse_lines(body, "description", step.path, step.id)
            self._needs(step, ids, known)
        for alias, step in doubled.items():
            detail = (
                f"`{aliases[alias]}` and `{step.id}` have the same `step_id`; nobody could tell which is meant by it."
            )
            hint = "Take the `step_id` away from one of them: it is only another name of the step."
            self.add("E_STEP_ID", detail, (*step.path, "step_id"), hint, step=step.id)
        if foreign:
            shown = f"step `{foreign[0].id}`" + (f" and {len(foreign) - 1} more" if foreign[1:] else "")
            detail = f"The `step_id` of {shown} is not of Ordain's making; it is kept as another name of the step."
            self.add("W_FOREIGN_ID", detail, (*foreign[0].path, "step_id"), step=foreign[0].id)
        if aliases:
            everyone = (value, *(step for key in ("steps", "fallbacks") for step in _list_of(value, key) or ()))
            for owner in everyone:
                if type(owner) is dict:
                    _replace_aliases(owner.get("preconditions"), aliases)

    def _needs(self, step: _Step, ids: list[str], known: Mapping[str, Path | int]) -> None:
        given = step.value.get("needs")
        if given is None:
            ordinary, index = step.path[-2] == "steps", step.path[-1]
            step.value["needs"] = [ids[int(index) - 1]] if ordinary and index != 0 else []
        elif type(given) is list:
            needs = [self._need(need, index, step, ids, known) for index, need in enumerate(given)]
            # What is neither a number nor text stays, for `shape` to refuse.
            if all(type(need) is str for need in needs):
                step.value["needs"] = sorted(set(needs))

    def _need(self, need: Any, index: int, step: _Step, ids: list[str], known: Mapping[str, Path | int]) -> Any:
        if type(need) is str and need in known:
            return need
        at = (*step.path, "needs", index)
        if type(need) is int:
            if 1 <= need <= len(ids):
                return ids[need - 1]
            detail = f"`needs` names step {need}; the plan has {len(ids)}."
            self.add("E_STEP_UNKNOWN_NEED", detail, at, step=step.id)
            return step.id
        if type(need) is str and len(self.problems) < PROBLEMS_MAX:
            fault = id_fault(need)
            if fault:
                self.add(*fault, at, *closest(need[:ID_LENGTH_MAX], list(known)[:200]), step=step.id)
        return need

    # --- Actions ---

    def action(self, value: Any, path: Path, prefix: str, depth: int) -> None:
        if type(value) is not dict:
            return
        kind = value.get("type")
        step = prefix.rstrip("/").rpartition("/")[2] or None
        if kind == "validate_approval" and "approval_code" in value:
            del value["approval_code"]
            detail = "There is an approval code in the plan, where everyone who reads it has it; it is ignored."
            hint = "Delete it, and say what the approval must cover: `scope: {action_kind: …}`."
            self.add("W_APPROVAL_CODE", detail, (*path, "approval_code"), hint, step=step)
        elif kind == "nested_plan" and type(value.get("plan")) is dict:
            if depth == NESTED_PLANS_MAX:
                detail = f"More than {NESTED_PLANS_MAX} plans are nested."
                self.add("E_PLAN_NESTING", detail, path, "Make it a plan of its own.", step=step)
                value["plan"] = _NOTHING_MORE_TO_SAY
            elif not self.plan(value["plan"], (*path, "plan"), prefix, depth + 1):
                value["plan"] = _NOTHING_MORE_TO_SAY

    # --- Beside the plan ---

    def _taken(self, value: dict[str, Any], keys: Iterable[str], path: Path) -> Iterator[tuple[str, Any]]:
        """What a mapping says beside the plan, taken out of it; what no document may hold is refused."""
        for key in keys:
            given, at = value.pop(key, None), (*path, key)
            if given is not None and shape(given, Any, locate=self.locate, problems=self.problems, path=at) is not None:
                yield key, given

    def _take_record(self, value: dict[str, Any], path: Path, prefix: str) -> None:
        record: dict[str, Any] = {}
        for key, given in self._taken(value, RECORD_FIELDS, path):
            if key in ("notes", "risks") and not prefix:
                self.notes += self._notes(given, key, (*path, key))
                continue
            record[key] = given
            if key == "plan_id":
                self._claimed.append((path, given))
        if record:
            self.beside.record[prefix] = record

    def _take_step_record(self, step: _Step, prefix: str) -> Any:
        """Put aside what the step says beside the plan; its foreign id, if it has one, is the answer."""
        record = dict(self._taken(step.value, STEP_RECORD_FIELDS, step.path))
        if record:
            self.beside.record[prefix + step.id] = record
        return record.get("step_id")

    def _notes(self, given: Any, key: str, path: Path) -> Iterator[tuple[str, str]]:
        """The notes of a mapping (heading to text), a list of texts, or a list of `{heading, text}`."""
        if key == "risks":
            items = [given] if isinstance(given, str) else given
            if isinstance(items, list) and all(isinstance(item, str) for item in items):
                yield "Risks", given if isinstance(given, str) else "\n".join(f"- {item}" for item in items)
                return
        elif isinstance(given, dict) and all(isinstance(text, str) for text in given.values()):
            yield from given.items()
            return
        elif isinstance(given, list):
            pairs = [pair for item in given if (pair := _note(item)) is not None]
            if len(pairs) == len(given):
                yield from pairs
                return
        wanted = "a list of texts" if key == "risks" else "a mapping from headings to texts, or a list of texts"
        self.add("E_PLAN_TYPE", f"`{path_text(path)}` is not {wanted}.", path)

    def _check_claims(self, made: Any) -> None:
        for path, claimed in self._claimed:
            plan = made
            for key in path:
                plan = plan[key] if isinstance(key, int) else getattr(plan, key)
            if isinstance(plan, Plan) and claimed != plan_id(plan):
                detail = "The `plan_id` is not that of this plan; it is kept as another name, and proves nothing."
                self.add("W_FOREIGN_ID", detail, (*path, "plan_id"))

    def _refuse_lines(self, value: dict[str, Any], key: str, path: Path, step: str | None) -> None:
        if fault := line_fault(key, value.get(key)):
            self.add("E_PLAN_TYPE", f"{fault}.", (*path, key), step=step)


# --- Small parts of trees ------------------------------------------------------------------------------------------


def _settled(step: dict[str, Any], index: int, ids: list[str], taken: Mapping[str, Path | int]) -> bool:
    """Whether an ordinary step is written as the model has it, for speed alone. Its number is taken away, absent
    `needs` are filled in."""
    number = step.get("step_number")
    if type(number) is int and number == index + 1:
        del step["step_number"]
    name, description, needs = step.get("id"), step.get("description"), step.get("needs")
    action, policy = step.get("action"), step.get("on_failure")
    if needs is None:
        needs = step["needs"] = ids[-1:]
    return (
        step.keys() <= _MODEL_KEYS
        and type(name) is str
        and name not in taken
        and id_fault(name) is None
        and type(description) is str
        and line_fault("description", description) is None
        and type(action) is dict
        and action.get("type") not in _UNSETTLED_ACTIONS
        and (policy is None or _holds_no_steps(policy))
        and type(needs) is list
        and (not needs or _sorted_ids(needs, taken))
    )


def _holds_no_steps(policy: Any) -> bool:
    """Whether a failure policy, and what follows it, names no fallback steps."""
    while type(policy) is dict:
        if policy.get("strategy") == "fallback":
            return False
        policy = policy.get("then")
    return policy is None


def _sorted_ids(needs: list[Any], taken: Mapping[str, Path | int]) -> bool:
    """Whether these are ids of steps above, each once, in the order in which they are hashed."""
    last = ""
    for need in needs:
        if type(need) is not str or need <= last or need not in taken:
            return False
        last = need
    return True


def _path_of(place: Path | int, plan: Path) -> Path:
    """The path of a step of which perhaps only the index is kept."""
    return (*plan, "steps", place) if isinstance(place, int) else place


def _list_of(value: dict[str, Any], key: str) -> list[Any] | None:
    """The list under a key, an empty one where nothing is written; None where something else is."""
    given = value.get(key)
    if given is None:
        value.pop(key, None)
        return [] if key == "steps" else None
    return given if type(given) is list else None


def _inline_steps(policy: Any) -> Iterator[tuple[list[Any], int, Path]]:
    """Every step written inside a failure policy: the list that holds it, its index there, and the way to it."""
    path: Path = ()
    while type(policy) is dict:
        steps = policy.get("steps")
        if policy.get("strategy") == "fallback" and type(steps) is list:
            for index, step in enumerate(steps):
                if type(step) is dict:
                    yield steps, index, (*path, "steps", index)
        policy, path = policy.get("then"), (*path, "then")


def _free_id(
    step: dict[str, Any], owner: str, number: int, taken: Mapping[str, Path | int], tries: Counter[str]
) -> str:
    """An id for a step that was written inside another step's policy, and therefore never named."""
    description = step.get("description") or _first_line(step)
    word = slug(description if isinstance(description, str) else "", number)
    if word in taken:
        word = slug(f"{owner}-{word}", number)
    name: str = word
    while name in taken:
        tries[word] += 1
        ending = f"-{tries[word] + 1}"
        name = word[: ID_LENGTH_MAX - len(ending)] + ending
    return name


def _first_line(step: dict[str, Any]) -> str:
    """What a step that runs a command is called when nobody says."""
    action = step.get("action")
    command = action.get("command") if type(action) is dict and action.get("type") == "run" else None
    return command.strip().partition("\n")[0].rstrip() if type(command) is str else ""


def _replace_aliases(preconditions: Any, aliases: Mapping[str, str]) -> None:
    for condition in preconditions if isinstance(preconditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == "step_completed":
            named = condition.get("step_id")
            if isinstance(named, str):
                condition["step_id"] = aliases.get(named, named)


def _note(item: Any) -> tuple[str, str] | None:
    if isinstance(item, str):
        return "", item
    known = isinstance(item, dict) and item.keys() <= {"heading", "text"}
    if known and all(isinstance(text, str) for text in item.values()):
        return item.get("heading", ""), item.get("text", "")
    return None
