"""What the store keeps and fetches: its index of local files, leftovers of killed pulls, wheels, index pages,
the answers of servers.
"""

from __future__ import annotations

import json
import os
import random
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from edgedec.core.errors import EdgeDecError
from edgedec.models import Store, Wheel
from tests.fuzz.mutate import integer, mutate_bytes, mutate_json
from tests.fuzz.target import OUTSIDE, Files, Link, tiny_bundle, tiny_gguf

INDEX, HOME, LOCAL = "home/local-files.json", "home", "local.gguf"
_FOLDER, _MTIME = "@folder@", 1_700_000_000
_WHEEL = Wheel("toy-model", "1.0", "toy_model/data/toy.bin")
WHEEL, PAGE_JSON, PAGE_HTML = "toy_model-1.0-py3-none-any.whl", "page.json", "page.html"
ANSWERS, PART, BODY = "answers.json", "toy.whl.part", b"0123456789" * 30
_URLS = (
    b"http://[",
    b"//[::1]x",
    b"file:///etc/passwd#",
    b"https://a:b@c:99999999/",
    b"http://u:p@[v1.x]/",
    b"\xff",
    b"%00",
    b"..%2f..%2fx.whl",
    b"x" * 5000,
    b"https://\xe2\x84\x80@",
    b"\n",
    b"%",
    b"\x00",
    b"&#0;",
    b"<!--",
    b"<![CDATA[",
    b"<!x",
    b"http://xn--a/",
    b"http://e\xcc\x81.\xe3\x80\x82/",
    b"https://h:x/",
)
_CONTENT = b"GGUF" + bytes(range(256)) * 8


def store_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """A home with one model, exported from a local file, and what a killed pull left beside it."""
    gguf = tiny_gguf(folder, "llama", "q4_1").read_bytes()
    bundle = tiny_bundle(folder, "llama", "q4_1")
    entry = {f"{_FOLDER}/{LOCAL}": [len(gguf), _MTIME * 10**9, "toy"]}
    model = {f"{HOME}/models/toy/{path.name}": path.read_bytes() for path in bundle.iterdir()}
    left = {
        f"{HOME}/models/toy.old-0a1b2c3d/manifest.json": b"{}",
        f"{HOME}/models/toy.partial-0a1b2c3d/weights.bin": b"x",
        f"{HOME}/downloads/toy/toy.whl.part": b"PK",
        f"{HOME}/downloads/toy.lock": b"",
    }
    index = json.dumps(entry).encode()
    return [({INDEX: index}, {LOCAL: gguf} | model), ({INDEX: index, **left}, {LOCAL: gguf} | model)]


def mutate_store(files: Files, rng: random.Random) -> None:
    """Another index, or another kind of thing where something lay."""
    action = rng.random()
    if action < 0.6 and not isinstance(files.get(INDEX, Link()), Link):
        files[INDEX] = mutate_json(files[INDEX], rng)
        return
    if not files:
        return
    name = rng.choice(sorted(files))
    data = files.pop(name)
    if action < 0.75:
        files[name] = Link(rng.choice((OUTSIDE, f"{OUTSIDE}/secret", "/dev/null", "nowhere", ".")).encode())
    elif action < 0.85:
        files[f"{name}/x"] = data
    elif action < 0.95:
        folder, _, last = name.rpartition("/")
        files[f"{folder}/{last}{rng.choice(('.old-1', '.trash-2', '[x]', '*', '.partial-zz'))}"] = data


def read_store(folder: Path) -> None:
    """What list, pull, rm and a chat do with the store."""
    index, local = folder / INDEX, folder / LOCAL
    if index.is_file() and not index.is_symlink():
        index.write_bytes(index.read_bytes().replace(_FOLDER.encode(), os.fsencode(folder)))
    os.utime(local, (_MTIME, _MTIME))
    store = Store(folder / HOME, notice=lambda line: None)
    store.list()
    errors = []
    for step in (
        lambda: store.ensure(str(local)),
        lambda: store.ensure(str(local)),
        lambda: store.path("toy"),
        lambda: store.pull("toy"),
        lambda: store.remove("toy"),
        store.list,
    ):
        try:
            step()
        except EdgeDecError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def wheel_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """A wheel with a piece of a model, and the pages that name it."""
    out: list[tuple[Files, Files]] = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        stream = BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            for name in (
                _WHEEL.member,
                "toy_model-1.0.dist-info/METADATA",
            ):  # dates as ever, for the same bytes
                archive.writestr(zipfile.ZipInfo(name), _CONTENT, compress_type=method)
        out.append(({WHEEL: stream.getvalue()}, {}))
    return out


def mutate_wheel(files: Files, rng: random.Random) -> None:
    """Damage anywhere, half of it in the directory at the end, which says where what lies."""
    data = files[WHEEL]
    at = max(data.find(b"PK\x01\x02"), 0) if rng.random() < 0.5 else 0
    files[WHEEL] = data[:at] + mutate_bytes(data[at:], rng)


def read_wheel(folder: Path) -> None:
    """Joined as a model in one piece; its size is known, its hash too."""
    from edgedec.models.sources.join import WheelPart, join
    from edgedec.models.sources.verify import Expected

    target = folder / "toy.gguf"
    pieces = [WheelPart(folder / WHEEL, _WHEEL.member, owned=True)]
    join(pieces, target, Expected("toy.gguf", len(_CONTENT)), lambda stage, done, total: None)
    assert target.stat().st_size == len(_CONTENT)


def page_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """An index page, as JSON and as HTML."""
    url = f"https://files.example.org/{WHEEL}"
    entry = {"filename": WHEEL, "url": url, "hashes": {"sha256": "0" * 64}, "size": 300}
    document = {"meta": {"api-version": "1.0"}, "name": "toy-model", "files": [entry, entry]}
    html = (
        f'<!DOCTYPE html><html><base href="/x/"><body><a href="{url}#sha256={"0" * 64}">w</a></body></html>'
    )
    return [({PAGE_JSON: json.dumps(document).encode()}, {}), ({PAGE_HTML: html.encode()}, {})]


def mutate_page(files: Files, rng: random.Random) -> None:
    """Other values, or URLs that only look like some."""
    for name, data in files.items():
        if rng.random() < 0.4:
            old, new = (
                rng.choice((b"https://", b"files.example.org", WHEEL.encode(), b"href", b"0" * 64)),
                _url(rng),
            )
            files[name] = data.replace(old, new, 1)
        else:
            files[name] = (mutate_json if name == PAGE_JSON else mutate_bytes)(data, rng)


def _url(rng: random.Random) -> bytes:
    return rng.choice(_URLS)


def read_page(folder: Path) -> None:
    """Links of the page, and the one to the wheel."""
    from edgedec.models.sources.simple_index import choose, parse_html, parse_json

    base = "https://user:word@index.example.org/simple/toy-model/"
    if (folder / PAGE_JSON).exists():
        links = parse_json((folder / PAGE_JSON).read_bytes(), base, None)
    else:
        links = parse_html((folder / PAGE_HTML).read_bytes().decode("utf-8", "replace"), base, None)
    found = choose(links, _WHEEL)
    for link in links:
        assert "/" not in link.file_name
    assert found is None or found.local is None or found.local.is_absolute()


def answer_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """What a server answers to each request for a file of which a part has arrived."""
    total = len(BODY)
    whole = {"status": 200, "headers": {"content-length": str(total)}, "from": 0, "to": total}
    rest = {
        "status": 206,
        "headers": {"content-range": f"bytes 100-{total - 1}/{total}", "content-length": str(total - 100)},
        "from": 100,
        "to": total,
    }
    done = {"status": 416, "headers": {"content-range": f"bytes */{total}"}, "from": 0, "to": 0}
    slow = {"status": 503, "headers": {"retry-after": "1"}, "from": 0, "to": 0}
    return [
        ({ANSWERS: json.dumps(answers).encode(), PART: part}, {})
        for answers, part in (([whole], b""), ([slow, rest], BODY[:100]), ([done], BODY))
    ]


def mutate_answer(files: Files, rng: random.Random) -> None:
    """Other headers, statuses and pieces of the body; or another part on the disk."""
    if rng.random() < 0.2:
        files[PART] = mutate_bytes(files[PART], rng)
        return
    answers = json.loads(files[ANSWERS])
    answer = rng.choice(answers)
    action = rng.choice(("status", "header", "header", "header", "from", "to", "more"))
    if action == "status":
        answer["status"] = rng.choice((200, 204, 206, 301, 304, 400, 401, 404, 416, 429, 500, 503, 599))
    elif action == "header":
        name = rng.choice(("content-range", "content-length", "retry-after", "content-encoding", "location"))
        number = rng.choice((str(integer(rng)), "²", "-1", "9" * 5000, "", "1e5", "*", "\xff"))
        answer["headers"][name] = rng.choice(
            (number, f"bytes {number}-5/{number}", f"bytes 0-9/{number}", "gzip")
        )
    elif action == "more":
        answers.append(rng.choice(answers))
    else:
        answer[action] = rng.randrange(len(BODY) + 10)
    files[ANSWERS] = json.dumps(answers).encode()


def read_answer(folder: Path) -> None:
    """The download, from a server that says what the file says; it must be whole or refused."""
    import httpx

    from edgedec.models.sources.download import download
    from edgedec.models.sources.simple_index import Link as FileLink

    answers = json.loads((folder / ANSWERS).read_bytes())

    def given() -> Iterator[httpx.Response]:
        for answer in answers:
            piece = BODY[answer["from"] : answer["to"]]
            headers = {k: v.encode("latin-1") for k, v in answer["headers"].items()}
            yield httpx.Response(answer["status"], headers=headers, stream=httpx.ByteStream(piece))
        while True:
            yield httpx.Response(404)

    served = given()
    transport = httpx.MockTransport(lambda request: next(served))
    link = FileLink("https://files.example.org/toy.whl", "toy.whl", None, len(BODY))
    with httpx.Client(transport=transport, follow_redirects=False) as client:
        path = download(
            client, link, folder / "toy.whl", report=lambda done, total: None, sleep=lambda pause: None
        )
    assert path.is_file()
