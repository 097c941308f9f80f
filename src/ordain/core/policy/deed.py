"""Verbs among the words of subcommands, tasks and scripts: what they suggest is done. A guess, so it only raises. A
verb of looking that comes first ends the search: `get deploy`, `lint:release`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ordain.core.policy.command_guess import guesses_of_sql
from ordain.core.policy.fact import CommandFact, FactNote
from ordain.core.policy.program import Words

_LOOKING_VERBS = """
    list ls ll show describe get view status logs log info version versions help whoami history current validate
    check lint fmt format diff plan preview search inspect top events explain doctor completion docs print tail
    stat stats exists watch wait metrics usage lookup ping outdated find count test tests spec audit graph verify
    dashboard browse summary tree ps dry
"""
_LOOKING = frozenset(_LOOKING_VERBS.split())
_DEEDS = {
    CommandFact.DELETES: """
        clean cleanall cleanup clear clobber decommission deintegrate del delete deprovision destroy discard
        distclean drop dropall dropdb erase evict expunge flush flushall flushdb mrproper nuke nukeall
        obliterate prune purge remove reset rm rmi shred teardown terminate truncate undeploy uninstall
        unmount unpublish wipe zap
    """,
    CommandFact.PUBLISHES: """
        announce broadcast deploy promote publish push redeploy release rollout ship submit upload
    """,
    CommandFact.REMOTE: """
        apply cordon downgrade drain failover grant migrate prod production provision revoke rollback rotate
        scale seed
    """,
    CommandFact.DISRUPTS: """
        down flash halt kill poweroff reboot restart shutdown stop stopall
    """,
}
"""What is one wherever it stands: a task of `make`, a script, a subcommand."""
_FURTHER_DEEDS = {
    CommandFact.DELETES: """
        blpop brpop bulkdelete dedupe deletefile deltree deregister detach disband dismiss dismount empty
        expire forget gc getdel hdel lpop ltrim rb removal retire rmdir rmdirs rpop spop srem trim unbind
        undefine unlink unmap unregister unregistervm unset xdel xtrim zpopmax zpopmin zrem zremrangebyrank
        zremrangebyscore
    """,
    CommandFact.PUBLISHES: """
        bisync comment copy copyto cp distribute expose finalize import invite launch link merge mirror mount
        notify post presign produce pub put rcat send serve share signurl subscribe sync transfer tweet
    """,
    CommandFact.REMOTE: """
        accept ack acl activate add adduser allow annotate append approve archive assign associate attach
        authorize backfill balance ban bgrewriteaof bgsave bind bitop block boot bootstrap call cancel capture
        certonly change charge cleanse client clone close cluster compact compose configure connect console
        converge convert create deactivate debug declare decr decrby decrypt defrag demote deny develop
        disable disassociate disconnect edit elect enable encrypt enroll evacuate eval evalsha evolve exec
        execute expand expireat export extend finish fork freeze function geoadd getset goto hincrby hmset
        hset hsetnx incr incrby ingest init inject install intercept invoke issue join label lb lease leave
        linsert load lock lpush lpushx lset map mark mb mk mkdir mksnap modify move moveto mset msetnx mute mv
        new offboard onboard optimize patch pause pay persist pexpire pfadd pin poweron protect psetex pull
        ready rearrange reassign rebalance rebuild reconcile reconfigure recreate redrive reduce refresh
        refund regenerate register reindex reinstall reject rekey reload relocate rename renamenx renew reopen
        reorganize repair repartition replace replay replicaof request requeue rerun resend reshard resize
        resolve restage restore resume retry revert rewrite rpush rpushx run sadd save schedule script seal
        seek set setex setnx setrange sftp shell sign signal skip slaveof snapshot sort ssh stamp start steer
        step stepdown suspend swap swapdb switch switchover tag thaw touch trigger unarchive unblock undelete
        undo unload unlock unmute unpin unprotect unseal unsubscribe up update upgrade upgradeall use void
        write xadd zadd zincrby
    """,
    CommandFact.CREDENTIALS: """
        auth credential credentials keys login logout password passwords secret secrets token tokens
    """,
}
"""What is one of programs whose subcommands change something elsewhere."""


def _by_verb(*groups: Mapping[CommandFact, str]) -> dict[str, CommandFact]:
    return {word: fact for group in groups for fact, words in group.items() for word in words.split()}


_NARROW, _WIDE = _by_verb(_DEEDS), _by_verb(_DEEDS, _FURTHER_DEEDS)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NO_VERB = re.compile(r"\A[-=]|://| |.{61}")


def deeds(words: Iterable[str | None], *, wide: bool) -> Iterator[FactNote]:
    """What the first verb among these words suggests: `flywayClean`, `db:drop`. `wide`: `create` and `set` count
    too."""
    found: FactNote | None = None
    for word in words:
        if word is None or _NO_VERB.search(word) or (not wide and "/" in word):
            continue
        parts = [part.lower() for part in _PART.findall(word)]
        if parts and parts[0] in _LOOKING:
            return
        fact = next((_NARROW[part] for part in parts if part in _NARROW), None)
        if fact is not None:
            found = FactNote(fact, word)
            break
        if wide and found is None:
            found = next((FactNote(_WIDE[part], word) for part in parts if part in _WIDE), None)
        if not _LOOKING.isdisjoint(parts):
            return
    if found is not None:
        yield found
        if wide and found.fact is CommandFact.DELETES:
            yield FactNote(CommandFact.IRREVERSIBLE, found.about)


def script_deeds(script: str, rest: Words) -> Iterator[FactNote]:
    """What the name of a script, or of an unknown program, and the words behind it suggest."""
    name = script.rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
    yield from deeds((stem, *rest[:3]), wide=False)
    if stem in ("install", "uninstall"):
        yield FactNote(CommandFact.OUTSIDE, script)
    for word in rest:
        if word is not None and " " in word:
            yield from guesses_of_sql(word)
