"""A model answers prompts in batches, and its replies are added to a store as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from edgedec.core.errors import EdgeDecError
from edgedec.core.quick_dataclass import dataclass
from edgedec.session.conversations import Conversations
from edgedec.session.reply import Reply
from edgedec.training.rollouts import Rollout, RolloutWriter, key_of

Answered = Callable[[int, int], None]
"""Called after each prompt with prompts done, and tokens of replies that were added."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The outcome of gathering: replies added, their tokens, and prompts that could not be answered.

    ``interrupted``: it ended before all was done.
    """

    replies: int
    tokens: int
    refused: int
    interrupted: bool


def unanswered(texts: Sequence[str], writer: RolloutWriter, *, greedy: bool) -> list[str]:
    """Return the prompts that have no reply yet, each once."""
    return [text for text in dict.fromkeys(texts) if not writer.answered(text, greedy=greedy)]


def gather(
    several: Conversations,
    texts: Sequence[str],
    writer: RolloutWriter,
    *,
    raw: bool = False,
    most_tokens: int | None = None,
    answered: Answered = lambda prompts, tokens: None,
) -> Gathered:
    """Answer ``texts`` and add each reply that came to its end.

    ``raw`` continues a text as it stands. It ends early when the store holds ``most_tokens`` of replies.
    Prompts that do not fit the context are counted and left out. Raises StorageError.
    """
    greedy = several.chats[0].settings.params.greedy
    before, replies, refused = writer.tokens, 0, 0
    full = most_tokens is not None and before >= most_tokens
    with closing(several.answers([] if full else texts, raw=raw)) as answers:
        for done, answer in enumerate(answers, 1):
            if answer.error is not None and not isinstance(answer.error, EdgeDecError):
                raise answer.error
            if answer.reply is None:
                refused += 1
            elif answer.reply.finish_reason != "interrupted" and answer.reply.tokens:
                writer.add(_rollout(texts[answer.number], answer.reply, greedy))
                replies += 1
            answered(done, writer.tokens - before)
            if full := most_tokens is not None and writer.tokens >= most_tokens:
                break
    interrupted = not full and replies + refused < len(texts)
    return Gathered(replies, writer.tokens - before, refused, interrupted)


def _rollout(text: str, reply: Reply, greedy: bool) -> Rollout:
    return Rollout(list(reply.prompt), list(reply.tokens), key_of(text), greedy)
