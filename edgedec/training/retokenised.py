"""A target's replies in another model's tokens: as that model reads them while it drafts."""

from __future__ import annotations

import numpy as np

from edgedec.decode.checks import common_prefix
from edgedec.draft.bridge import TextBridge
from edgedec.drafters.pairing import control_tokens
from edgedec.text.tokenizer import Tokenizer
from edgedec.training.features import LONGEST_TOKENS, Features
from edgedec.training.rollouts import Rollout

CODE, PROSE = "code", "prose"
_FENCE = b"```"


class Retokeniser:
    """Translates replies of ``target`` into tokens of ``draft``, which has ``size`` ids."""

    def __init__(self, target: Tokenizer, draft: Tokenizer, size: int) -> None:
        self._target, self._draft = target, draft
        self._controls, self._size = control_tokens(target, draft), size

    def features(self, rollout: Rollout) -> Features | None:
        """Return a reply as a text to learn: what follows each token is the reply's own next one.

        None where nothing of the reply is within the first tokens.
        """
        info = self._draft.info
        opening = [info.bos_id] if info.add_bos and info.bos_id is not None else []
        bridge = TextBridge(self._target, self._draft, self._controls, draft_size=self._size, opening=opening)
        bridge.begin(rollout.prompt, 0)
        before = bridge.read()
        bridge.commit(rollout.reply)
        tokens = np.array(bridge.read()[: LONGEST_TOKENS + 1], np.int32)
        first = common_prefix(before, tokens.tolist()) - 1
        if first < 0 or len(tokens) < first + 2:
            return None
        ids = tokens[first + 1 :, None]
        taught = len(tokens) - 1
        return Features(
            tokens[:taught],
            np.zeros((taught, 0), np.float16),
            ids.astype(np.int32),
            np.zeros(ids.shape, np.float16),
        )

    def kind(self, rollout: Rollout) -> str:
        """Return the kind of text that a reply is: one with a block of code, or prose."""
        spelled = b"".join(self._target.token_bytes(token) for token in rollout.reply)
        return CODE if _FENCE in spelled else PROSE
