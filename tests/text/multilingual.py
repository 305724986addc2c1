"""Texts that tokenizers disagree on: scripts, marks, white space, digits, rare and control characters.

Sentences written for this project. ``hard_texts`` are fixed, ``mixtures`` are seeded random joins of them.
"""

# ruff: noqa: E501, RUF001  (odd characters and long lines are the point)

from __future__ import annotations

import random

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "I'm sure they'll say we've done it; you'd think it's fine, but HE'S NOT and I'D KNOW.",
    "Don't can't won't o'clock rock'n'roll 'tis 'twas the '90s' best",
    "Être ou ne pas être, voilà où l'été commençait déjà à Nîmes.",
    "Übergröße, Straße, Füße: weiß der Zwölfjährige, was größer ist?",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío; ¿añoraba a su querido cachorro?",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Zażółć gęślą jaźń, łódź i źdźbło.",
    "Pijamalı hasta yağız şoföre çabucak güvendi; İstanbul'da ışık.",
    "Árvíztűrő tükörfúrógép",
    "Hæ, þú ert að læra íslensku á Þingvöllum, ekki satt?",
    "Tiếng Việt có nhiều dấu thanh: ngã, nặng, hỏi, sắc, huyền.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Щастя — це коли їжак з'їв ґудзик.",
    "Ο ταχύς βρώσιμος παχύσαρκος ανθρώπος ψήνει πάνω από ένα τεμπέλικο ζώο.",
    "Ξεσκεπάζω τὴν ψυχοφθόρα σας βδελυγμία, ᾧ ἀδελφέ.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ومغلف بجلد أزرق.",
    "اَلْعَرَبِيَّةُ لُغَةٌ جَمِيلَةٌ، أليس كذلك؟ ١٢٣٤٥",
    "این یک جملهٔ فارسی است که نیم‌فاصله دارد: می‌خواهم.",
    "דג סקרן שט לו בים זך אך לפתע פגש חבורה נחמדה שצצה כך.",
    "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णुवतार भगवान श्रीराम।",
    "আমি বাংলায় গান গাই, ১২৩টি।",
    "தமிழ் மொழி மிகவும் பழமையானது; ௧௨௩.",
    "తెలుగు భాష చాలా మధురమైనది.",
    "ภาษาไทยไม่มีการเว้นวรรคระหว่างคำและมีวรรณยุกต์ ๑๒๓",
    "ພາສາລາວກໍ່ຄ້າຍຄືກັນ",
    "မြန်မာစာသည် လှပသည်။",
    "ភាសាខ្មែរពិបាកណាស់",
    "ქართული ენა და მისი დამწერლობა, ᲥᲐᲠᲗᲣᲚᲘ",
    "Հայերենը հին լեզու է։",
    "አማርኛ የኢትዮጵያ ቋንቋ ነው።",
    "天地玄黄,宇宙洪荒。日月盈昃,辰宿列张。",
    "我们在2024年3月15日14:30开会,地点是北京市海淀区。",
    "繁體中文與簡體中文並不完全相同;「引號」也不一樣。",
    "いろはにほへと ちりぬるを わかよたれそ つねならむ",
    "東京タワーは333メートルです。ｶﾀｶﾅも、ＡＢＣ１２３も使う。",
    "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.",
    "\u1112\u1161\u11ab\u1100\u1173\u11af in decomposed jamo",
    "ᠮᠣᠩᠭᠣᠯ ᠬᠡᠯᠡ, བོད་སྐད་, ᏣᎳᎩ, ᐃᓄᒃᑎᑐᑦ, ߒߞߏ",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝕞𝕒𝕥𝕙 𝒮𝒸𝓇𝒾𝓅𝓉 ﬁ ﬂ ﬃ Ǆ ǅ ǆ",
    "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇫🇷🇯🇵 1️⃣ ❤️ 🧑🏿‍🚀 ☕︎ ☕️",
    "e\u0301 a\u0308\u0323 n\u0303 Z\u0351\u036b\u0343\u036a\u0302\u036b\u033da\u0334\u0319\u0324lgo",
    "zero\u200bwidth\u200cnon\u200djoin\u2060er\ufeff soft\u00adhyphen \u202eRTL\u202c \u2066iso\u2069",
    "spaces:\u00a0nbsp\u2003em\u2009thin\u202fnnbsp\u3000ideographic\u1680ogham\u2028line\u2029para\u0085nel\x0bvt\x0cff",
    "π ≈ 3.14159, ∑∞ₙ₌₁ 1/n² = π²/6, ½ ¼ Ⅷ ⅷ ① ㊿ 𝟘𝟙 x₁² H₂O 10⁻³ ≠ ±∓ ∀x∈ℝ ∃y",
    "€100 £5.50 ¥1,000 ₿0.5 $3,141,592.65 -17 +4 1e-9 0xDEADBEEF 0b1010 007 12345678901234567890",
    "+33 (0)1 23-45-67 89, 192.168.0.1:8080, ::1, fe80::1%eth0, 2024-02-29T23:59:60Z",
    "https://example.org/a/b_c?q=1&r=%20x#frag mailto:who+tag@example.co.uk file:///C:\\dir\\x.txt",
    "snake_case camelCase PascalCase SCREAMING_CASE kebab-case dotted.name i18n utf8mb4 v2.0.1-rc.3",
    "\"quotes\" 'single' “curly” ‘curly’ «guillemets» „low“ `tick` ```fence``` … -- — – ‐ !? ?! ¡¿ § ¶ † ‡ • ·",
    '#!/bin/sh\nset -eu; for f in *.c; do cc -O2 -o "${f%.c}" "$f" || exit 1; done\n',
    "def f(x: int) -> str:\n    return f\"{x!r:>10}\" if x else ''\n\n\nclass A(B):\n\tpass\n",
    'int main(void) { printf("%d\\n", 1 << 3); return 0; } /* end */ // done',
    "SELECT * FROM t WHERE a >= 1 AND b <> 'x''y' ORDER BY c DESC;",
    '<div class="a"><p>text &amp; more</p><br/></div><!-- c --><table><tr><td>1</td></tr></table>',
    '{"key": [1, 2.5, null, true], "nested": {"ü": "\\u00fc"}}',
    "| a | b |\n|---|:-:|\n| 1 | **2** |\n\n- [ ] task\n- [x] done\n\n> quote\n\n1. one\n2. two\n",
    "\\frac{a}{b} \\sum_{i=0}^{n} x_i^2 $$E=mc^2$$ \\begin{align} a &= b \\\\ c &= d \\end{align}",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa hahahahahahahaha xoxoxoxo ======== -------- ........ ________",
    "looooooooooooong wooooords noooooooooo !!!!!!!!!!!!!! ?????? ~~~~~~ ///// \\\\\\\\ ((((())))) [[[]]] {{{}}} <<<>>>",
    "<|notspecial|> <|im_start <s> </s> <unk> [INST] [/INST] <<SYS>> <0x0A> <0xFF> ▁under▁score▁ Ġbyte Ċ",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore.",
    "Antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis Rindfleischetikettierung",
)

WHITE_SPACE = (
    " ", "  ", "   ", "    ", "     ", "        ", " " * 31, " " * 40, " " * 100,
    "\n", "\n\n", "\n\n\n", "\n" * 31, "\n" * 32, "\n" * 70,
    "\t", "\t\t", "\t" * 5, "\t" * 35,
    "\r", "\r\n", "\r\n\r\n", " \n", "\n ", " \n \n ", "\t\n", "\n\t", " \t ", "\n    ", "\n\n    ", "    \n", "\r\n\t ",
    "\u00a0", " \u00a0 ", "\u3000", "\u2028", "\u0085", "\x0b\x0c", "\u200b", "\n\u00a0\n",
)  # fmt: skip

RARE = (
    "\x00", "\x01\x02\x03", "\x07\x08\x1b[31mred\x1b[0m", "\x7f", "\u0080\u009f", "\ue000\uf8ff", "\ufdd0\uffff",
    "\U000e0041\U000e007f", "\U0010ffff", "\ufffd\ufffc", "\U0001f9ff\U0001fae8", "\U00020000\U0002a6d6", "\U00012000𓀀",
    "ꙮ ⸘ ‽ ⁂", "\u0378\u05ff\u0e7f", "\U0001e900\U0001e922 𐐀𐐨 Ⴀⴀ", "ʰʷˠ ˈlɪŋɡwə̃", "ﷺ ﷽", "\u0600\u06dd", "१२३ ๔๕ ᭑ 𞥐", "㋿㍿", "ｗｉｄｅ！？",
)  # fmt: skip


def hard_texts() -> list[str]:
    """Every sentence and oddity alone, between words, and next to each kind of white space."""
    texts = [*SENTENCES, *WHITE_SPACE, *RARE, ""]
    texts += [f"a{space}b" for space in WHITE_SPACE]
    texts += [f"word.{space}5 'tis{space}" for space in WHITE_SPACE]
    texts += [f"x {odd} y" for odd in RARE]
    texts += [sentence.upper() for sentence in SENTENCES] + [
        sentence.replace(" ", "") for sentence in SENTENCES
    ]
    return texts


def mixtures(count: int, seed: int = 0) -> list[str]:
    """``count`` reproducible joins of slices of sentences, white space, rare characters and random code points."""
    rng = random.Random(seed)
    return [_mixture(rng) for _ in range(count)]


def _mixture(rng: random.Random) -> str:
    pieces = []
    for _ in range(rng.randint(2, 8)):
        kind = rng.random()
        if kind < 0.5:
            sentence = rng.choice(SENTENCES)
            start = rng.randrange(len(sentence))
            pieces.append(sentence[start : start + rng.randint(1, 25)])
        elif kind < 0.7:
            pieces.append(rng.choice(WHITE_SPACE))
        elif kind < 0.8:
            pieces.append(rng.choice(RARE))
        elif kind < 0.9:
            pieces.append(str(rng.randrange(10 ** rng.randint(1, 12))))
        else:
            pieces.append("".join(_code_point(rng) for _ in range(rng.randint(1, 6))))
    return "".join(pieces)


def _code_point(rng: random.Random) -> str:
    code = rng.choice(
        (rng.randrange(0x20, 0x250), rng.randrange(0x250, 0x3000), rng.randrange(0x3000, 0x20000))
    )
    return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)
