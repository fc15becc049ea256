"""A slack of its own for one result: its streams again, under another policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.model.node import Source
from slackwater.model.policy import Policy, Punctuated
from slackwater.model.rewrite import Rewrite

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


def with_policy(stream: Stream, policy: Any) -> Stream:
    """``stream`` with all its sources under ``policy``; see `Stream.withQuality`."""
    if not isinstance(policy, Policy) or isinstance(policy, Punctuated):
        raise AnalysisError(
            "BAD_POLICY",
            f"withQuality({policy!r}): not a policy that a result can have for itself",
            hint='give a target, such as sw.Quality(error=0.01), or a slack: sw.BoundedDelay("5 seconds")',
        )

    def twin(source: Source) -> Source:
        if any(isinstance(p, Punctuated) for p in source.policies):
            raise AnalysisError(
                "BAD_POLICY",
                f"stream '{source.name}' has punctuation, which says for all results what is complete",
                hint="make another stream of the same DataFrame, with another progress=",
                stream=source.name,
            )
        name = source.twin or source.name
        policies = tuple(_completed(policy, own) for own in source.policies)
        return replace(source, name=f"{name}~", policies=policies, twin=name)

    return stream._with(Rewrite(twin, late=False)(stream._node))


def _completed(policy: Policy, own: Policy) -> Policy:
    """What the stream's policy says of idle and lagging partitions and of the future, where ``policy`` says nothing."""
    guarded = policy.guard != "default"
    return replace(
        policy,
        idle=own.idle if policy.idle is None else policy.idle,
        lag=own.lag if policy.lag is None else policy.lag,
        guard=policy.guard if guarded else own.guard,
        future=policy.future if guarded else own.future,
    )
