"""A live Metabase, spoken to over HTTP: a local server that answers as real ones do, in both versions of the API."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ktxkit.base.clock import FixedClock, SystemClock
from ktxkit.base.errors import CannotRun, KtxError
from ktxkit.ingest.connectors import interface
from ktxkit.ingest.connectors.http import Client, Forbidden, Unavailable
from tests.support.shared import shared
from tests.support.staging import STANDS_FOR_A_FILE, Held, Stand, read, stage

KEY = {"METABASE_API_KEY": "mb_secret"}
Answer = tuple[int, Any, dict[str, str]]


@dataclass
class Server:
    """What the server answers: by path, a value or a function of the query. `trouble`: statuses to give first."""

    answers: dict[str, Any]
    trouble: dict[str, list[Answer]] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, list[str]], dict[str, str]]] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)
    url: str = ""

    def answer(self, target: str, headers: dict[str, str]) -> Answer:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        self.seen.append((parts.path, query, headers))
        waiting = self.trouble.get(parts.path, [])
        if waiting:
            return waiting.pop(0)
        if "mb_secret" not in (headers.get("x-api-key"), headers.get("x-metabase-session")):
            return 401, {"cause": "Unauthenticated"}, {}
        if parts.path not in self.answers:
            return 404, "Not found.", {}
        value = self.answers[parts.path]
        return 200, value(query) if callable(value) else value, {}


class Listening(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up."""


@pytest.fixture
def serve() -> Iterator[Callable[[dict[str, Any]], Server]]:
    running: list[ThreadingHTTPServer] = []

    def start(answers: dict[str, Any]) -> Server:
        server = Server(answers)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # the connection is kept
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                server.connections.add(self.client_address)
                status, value, headers = server.answer(self.path, {k.lower(): v for k, v in self.headers.items()})
                body = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                for name, text in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        listening = Listening(("127.0.0.1", 0), Handler)
        running.append(listening)
        threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True).start()
        server.url = f"http://127.0.0.1:{listening.server_address[1]}"
        return server

    yield start
    for one in running:
        one.shutdown()
        one.server_close()


def query(table: int = 10) -> dict[str, Any]:
    return {"database": 2, "type": "query", "query": {"source-table": table}}


def card(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"Card {number}",
        "type": "question",
        "database_id": 2,
        "dataset_query": query(),
        **more,
    }


def item(number: int, model: str = "card") -> dict[str, Any]:
    return {"id": number, "model": model, "name": f"{model} {number}", "archived": False}


def paged(items: list[dict[str, Any]]) -> Callable[[dict[str, list[str]]], Any]:
    def answer(asked: dict[str, list[str]]) -> Any:
        offset, limit = int(asked["offset"][0]), int(asked["limit"][0])
        return {"data": items[offset : offset + limit], "total": len(items)}

    return answer


def metabase(*cards: dict[str, Any]) -> dict[str, Any]:
    """A small Metabase: one database, the root collection with these cards, one dashboard."""
    return {
        "/api/database": {"data": [{"id": 2, "name": "shop"}, {"id": 9, "name": "audit", "is_audit": True}]},
        "/api/database/2/metadata": {"id": 2, "engine": "postgres", "details": {"password": "p4ss"}, "tables": []},
        "/api/collection": [
            {"id": "root"},
            {"id": 3, "name": "Team"},
            {"id": 4, "personal_owner_id": 1, "name": "Mine"},
        ],
        "/api/collection/root/items": paged([*(item(one["id"]) for one in cards), item(5, "dashboard")]),
        "/api/collection/3/items": paged([]),
        "/api/dashboard/5": {"id": 5, "name": "Board", "dashcards": [{"card_id": 1}]},
        **{f"/api/card/{one['id']}": one for one in cards},
    }


def clock() -> FixedClock:
    return FixedClock(datetime(2026, 5, 17, tzinfo=UTC))


def test_everything_is_fetched_page_by_page_and_no_secret_is_kept(serve: Callable[..., Server]) -> None:
    cards = [card(number) for number in range(1, 451)]
    server = serve(metabase(*cards))
    held, staged = stage("metabase", url=server.url + "/", env=KEY)
    assert len(held.files) == 450 + 3 and not staged.warnings
    assert {"collection.json", "database/2/metadata.json", "dashboard/5.json", "card/450.json"} <= set(held.files)
    pages = [asked["offset"] for path, asked, _ in server.seen if path == "/api/collection/root/items"]
    assert pages == [["0"], ["200"], ["400"]]
    assert not any(path.startswith(("/api/collection/4", "/api/database/9")) for path, _, _ in server.seen)
    everything = b"".join(held.files.values())
    assert b"p4ss" not in everything and b"mb_secret" not in everything
    assert all("mb_secret" not in path and "mb_secret" not in str(asked) for path, asked, _ in server.seen)
    assert stage("metabase", url=server.url, env={"METABASE_SESSION": "mb_secret"})[0].files == held.files


def test_a_server_without_paging_and_one_that_lists_databases_bare(serve: Callable[..., Server]) -> None:
    answers = metabase(card(1))
    answers |= {"/api/database": [{"id": 2}], "/api/collection/root/items": [item(1)]}
    assert "card/1.json" in stage("metabase", url=serve(answers).url, env=KEY)[0].files


def test_trouble_is_tried_again_waiting_longer_each_time(serve: Callable[..., Server]) -> None:
    server = serve(metabase(card(1)))
    server.trouble["/api/card/1"] = [(503, "", {}), (429, "", {"Retry-After": "7"}), (500, "", {})]
    ticking = clock()
    held, staged = stage("metabase", url=server.url, env=KEY, clock=ticking)
    assert "card/1.json" in held.files and not staged.warnings
    assert ticking.monotonic() == 0.5 + 7 + 2.0


def test_a_card_that_cannot_be_had_is_named_and_never_called_deleted(serve: Callable[..., Server]) -> None:
    server = serve(metabase(card(1), card(2), card(3)))
    server.trouble["/api/card/2"] = [(500, "", {})] * 5
    server.trouble["/api/card/3"] = [(404, "", {})]
    held, staged = stage("metabase", url=server.url, env=KEY, clock=clock())
    assert "card/1.json" in held.files and "card/2.json" not in held.files
    assert staged.unfetched == ["card/2.json"] and "card/2.json could not be had" in staged.warnings[0]


def test_a_server_that_loses_many_cards_gives_no_snapshot(serve: Callable[..., Server]) -> None:
    cards = [card(number) for number in range(1, 11)]
    server = serve(metabase(*cards))
    for one in cards:
        server.trouble[f"/api/card/{one['id']}"] = [(500, "", {})] * 5
    with pytest.raises(Unavailable, match="5 of 10 could not be had"):
        stage("metabase", url=server.url, env=KEY, clock=clock())


ODD: dict[str, Any] = {
    "null": None, "a number": 5, "text": "x", "nothing": b"", "HTML": b"<html>",
    "cut off": b'{"id": 1, "na', "deep": b"[" * 100_000, "objects without ids": [{}],
    "an empty list": [], "an empty object": {}, "a list of numbers": [5], "a list of lists": [[]],
    "ids that are none": [{"id": "x"}, {"id": None}, {"id": [1]}, {"id": 1e400}], "data that is none": {"data": 5},
    "data of what is none": {"data": [5], "total": 1}, "a total that is none": {"data": [], "total": "many"},
    "an object of lists": {"id": [], "name": [], "tables": 5, "type": {}, "dataset_query": [], "dashcards": 3},
    "tables of what is none": {"id": 2, "tables": [5, {"id": []}, {"id": 1, "fields": 5}, {"id": 3, "fields": [7]}]},
    "a query of what is none": {"id": 1, "type": "model", "dataset_query": {"native": 5, "query": [], "stages": {}},
                                "result_metadata": [5, {}]},
    "not UTF-8": b'{"id": 1, "name": "\xff"}', "not a number": b'{"id": NaN}',
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_odd_answers_are_errors_or_cards_and_never_a_traceback(serve: Callable[..., Server], odd: str) -> None:
    """Whatever the server says: it is a snapshot that can be read, or an error with a place and the next step."""
    for path in metabase(card(1)):
        server = serve({**metabase(card(1)), path: ODD[odd]})
        try:
            held, _ = stage("metabase", url=server.url, env=KEY, clock=clock())
            reading = read("metabase", held)
            assert reading.plan() is not None and reading.project() is not None
        except KtxError as error:
            assert error.location and error.hint, (path, error)


def test_pages_are_asked_for_until_all_are_there(serve: Callable[..., Server]) -> None:
    """A total that is missing, wrong, or changes meanwhile must not lose a card: it would be called deleted."""
    cards = [card(number) for number in range(1, 451)]
    items = [item(one["id"]) for one in cards]

    def staged(answer: Callable[[int], Any]) -> int:
        answers = metabase(*cards) | {"/api/collection/root/items": lambda asked: answer(int(asked["offset"][0]))}
        held, _ = stage("metabase", url=serve(answers).url, env=KEY, clock=clock())
        return sum(name.startswith("card/") for name in held.files)

    assert staged(lambda offset: {"data": items[offset : offset + 200]}) == 450, "no total"
    assert staged(lambda offset: {"data": items[offset : offset + 50], "total": 450}) == 450, "pages of its own size"
    with pytest.raises(Unavailable, match="lists 450"):
        staged(lambda offset: {"data": items[offset : offset + 200] if offset < 400 else [], "total": 450})
    with pytest.raises(Unavailable, match="the same page"):
        staged(lambda offset: {"data": items[:200], "total": 450})
    totals = iter([450, 449, *[449] * 10])
    assert (
        staged(lambda offset: {"data": items[1 if offset else 0 :][offset : offset + 200], "total": next(totals)})
        >= 449
    )


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "no credentials": ({}, "no credentials"),
    "wrong credentials": ({"METABASE_API_KEY": "other"}, "refuses these credentials"),
    "a key that no header can have": ({"METABASE_API_KEY": "a\r\nb: c"}, "no header"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_credentials(serve: Callable[..., Server], name: str) -> None:
    env, message = REFUSED[name]
    with pytest.raises((CannotRun, Forbidden), match=message) as caught:
        stage("metabase", url=serve(metabase()).url, env=env)
    assert "other" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "metabase",
        "http://",
        "http://user:secret@host",
        "file:///etc/passwd",
        "http://[::1",
        "http://h:x/",
        "http://h/?key=secret",
        "http://h/#secret",
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(CannotRun) as caught:
        stage("metabase", url=url, env=KEY)
    assert "secret" not in caught.value.message


def client(url: str, request_limit: float = 30.0, time_limit: float = 3600.0) -> Client:
    return Client(url, {"x-api-key": "mb_secret"}, clock(), request_limit, time_limit)


def test_a_redirect_to_another_host_is_not_followed_with_the_credentials(serve: Callable[..., Server]) -> None:
    other = serve({"/api/x": {"ok": True}})
    server = serve({})
    server.trouble["/api/x"] = [(302, "", {"Location": other.url + "/api/x"})]
    with pytest.raises(Unavailable, match="redirects to"):
        client(server.url).get("api/x")
    assert not other.seen
    server.trouble["/api/x"] = [(302, "", {"Location": "/api/y"})]
    server.answers["/api/y"] = {"ok": 1}
    assert client(server.url).get("api/x") == {"ok": 1}


def test_answers_that_are_none(serve: Callable[..., Server]) -> None:
    server = serve({"/api/html": b"<html>", "/api/large": ["x" * 500]})
    with pytest.raises(Unavailable, match="no JSON"):
        client(server.url).get("api/html")
    with pytest.raises(Unavailable, match="above 100 bytes"):
        Client(server.url, {"x-api-key": "mb_secret"}, clock(), answer_limit=100).get("api/large")


def test_time_limits(serve: Callable[..., Server]) -> None:
    server = serve({})
    server.trouble["/api/x"] = [(503, "", {"Retry-After": "50"})] * 9
    with pytest.raises(Unavailable, match="not done within 60 seconds"):
        client(server.url, time_limit=60).get("api/x")
    released = threading.Event()
    server.answers["/api/slow"] = lambda _query: released.wait(30)
    try:
        with pytest.raises(Unavailable, match="no answer after 5 tries"):
            client(server.url, request_limit=0.05).get("api/slow")
    finally:
        released.set()


def test_one_connection_for_many_requests(serve: Callable[..., Server]) -> None:
    server = serve({f"/api/{number}": {"number": number} for number in range(50)})
    asking = client(server.url)
    assert [asking.get(f"api/{number}")["number"] for number in range(50)] == list(range(50))
    assert len(server.connections) == 1
    server.trouble["/api/1"] = [(503, "x" * 100_000, {})]  # a body that nobody reads
    assert asking.get("api/1") == {"number": 1} and asking.get("api/2") == {"number": 2}
    assert len(server.connections) == 2


def test_redirects_end(serve: Callable[..., Server]) -> None:
    server = serve({})
    server.trouble["/api/x"] = [(302, "", {"Location": "/api/x"})] * 20
    with pytest.raises(Unavailable, match="redirects more than 10 times"):
        client(server.url).get("api/x")
    assert len(server.trouble["/api/x"]) == 10
    server.trouble["/api/x"] = [(302, "", {})]
    with pytest.raises(Unavailable, match="status 302"):
        client(server.url).get("api/x")


def test_an_answer_that_trickles_in_ends_with_the_limit() -> None:
    """Each byte comes in time; all of them would take a day."""
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def trickle() -> None:
        for _ in range(5):
            connection, _ = listening.accept()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not ended.wait(0.01):
                try:
                    connection.sendall(b" ")
                except OSError:
                    break  # gate-ok: the client has hung up, as it should
            connection.close()

    sending = threading.Thread(target=trickle)
    sending.start()
    asking = Client(f"http://127.0.0.1:{listening.getsockname()[1]}", {}, Sleepless(), request_limit=0.2)
    try:
        with pytest.raises(Unavailable, match=r"no answer after 5 tries: not all of it within 0.2 seconds"):
            asking.get("api/x")
    finally:
        ended.set()
        sending.join()
        listening.close()


class Sleepless(SystemClock):
    """The machine's clock, that waits for nothing."""

    def sleep(self, seconds: float) -> None:
        pass


def test_the_proxy_of_the_environment(serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve({"/api/x": {"through": "the proxy"}})  # it answers itself, whatever host is asked for
    monkeypatch.setenv("http_proxy", proxy.url.replace("http://", "http://user:p%40ss@"))
    assert client("http://metabase.invalid").get("api/x") == {"through": "the proxy"}
    assert proxy.seen[-1][2]["proxy-authorization"] == "Basic dXNlcjpwQHNz"
    assert proxy.seen[-1][2]["host"] == "metabase.invalid"
    monkeypatch.setenv("http_proxy", proxy.url.removeprefix("http://"))
    assert client("http://metabase.invalid").get("api/x") == {"through": "the proxy"}
    asked = len(proxy.seen)
    monkeypatch.setenv("no_proxy", "metabase.invalid")
    with pytest.raises(Unavailable, match="no answer after 5 tries"):
        client("http://metabase.invalid").get("api/x")
    server = serve({"/api/x": {"ok": 1}})
    assert client(server.url).get("api/x") == {"ok": 1}, "this machine itself needs no proxy"
    assert len(proxy.seen) == asked


def test_nobody_listens() -> None:
    with pytest.raises(Unavailable, match="no answer after 5 tries"):
        client("http://127.0.0.1:9").get("api/x")


def test_options(serve: Callable[..., Server]) -> None:
    answers = metabase(card(1), card(2, database_id=7))
    answers["/api/database"] = [{"id": 2}, {"id": 7}]
    answers["/api/database/7/metadata"] = {"id": 7, "tables": []}
    answers["/api/collection/4/items"] = [item(1)]
    server = serve(answers)
    held, staged = stage("metabase", url=server.url, env=KEY, options={"database": "2", "include-personal": "true"})
    assert "card/2.json" not in held.files and "database/7/metadata.json" not in held.files
    assert staged.scope == "database 2" and any(path == "/api/collection/4/items" for path, _, _ in server.seen)
    scoped = read("metabase", held, database="2")
    assert not scoped.in_scope("card/2.json", lambda: json.dumps(card(2, database_id=7)).encode())
    assert scoped.in_scope("card/9.json", lambda: json.dumps(card(9)).encode())
    assert not scoped.in_scope("database/7/metadata.json", lambda: None)
    bad: list[tuple[str, str]] = [("group", "x"), ("colour", "red"), ("time-limit", "soon")]
    for name, value in bad:
        with pytest.raises(CannotRun):
            stage("metabase", url=server.url, env=KEY, options={name: value})


@pytest.mark.needs_data
def test_recorded_answers_of_a_real_server_give_what_their_files_give(serve: Callable[..., Server]) -> None:
    place = shared("data", "metabase-api", "mbql5")

    def recorded(name: str) -> Any:
        return json.loads((place / f"{name}.json").read_bytes())

    answers = {
        f"/api/{path.relative_to(place).with_suffix('').as_posix()}": recorded(
            path.relative_to(place).with_suffix("").as_posix()
        )
        for path in place.rglob("*.json")
    }
    live, staged = stage("metabase", url=serve(answers).url, env=KEY)
    files, _ = stage("metabase", place)
    assert not staged.warnings and not staged.unfetched
    cards = {name for name in live.files if name.startswith("card/")}
    assert cards == {f"card/{number}.json" for number in range(27, 34)}
    assert all(
        live.files[name] == files.files[name] for name in cards | {"database/2/metadata.json", "dashboard/2.json"}
    )
    one, other = read("metabase", live), read("metabase", files)
    assert [unit.key for unit in one.plan()] == [unit.key for unit in other.plan()]
    assert one.project().files == other.project().files


def test_damaged_directories_are_named(tmp_path: Any) -> None:
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards/1.json").write_text('{"metabaseId": 1, ')
    with pytest.raises(CannotRun) as caught:
        stage("metabase", tmp_path)
    assert caught.value.location.endswith("cards/1.json")
    (tmp_path / "cards/1.json").write_text("[1]")
    with pytest.raises(CannotRun, match="shape"):
        stage("metabase", tmp_path)
    with pytest.raises(CannotRun, match="no such directory"):
        stage("metabase", tmp_path / "nowhere")


def test_archived_cards_and_people_are_not_there(tmp_path: Any) -> None:
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards/1.json").write_text(json.dumps({"metabaseId": 1, "name": "a", "resolvedSql": "select 1"}))
    (tmp_path / "cards/3.json").write_text(json.dumps({"metabaseId": 3, "name": "b", "archived": True}))
    (tmp_path / "user").mkdir()
    (tmp_path / "user/1.json").write_text("{}")
    (tmp_path / "about").symlink_to("/nowhere")
    held, staged = stage("metabase", tmp_path)
    assert isinstance(held, Held) and list(held.files) == ["cards/1.json"]
    assert staged.not_read == ["about", "user/1.json"]


@pytest.mark.parametrize("make", STANDS_FOR_A_FILE.values(), ids=STANDS_FOR_A_FILE)
@pytest.mark.parametrize("name", ["cards/1.json", "cards", "databases/2", "collection.json", "sync-config.json"])
def test_what_stands_for_a_file_is_refused_and_never_called_deleted(tmp_path: Any, name: str, make: Stand) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if path.suffix or make is not STANDS_FOR_A_FILE["a directory"]:
        make(path)
        with pytest.raises(CannotRun, match=r"it is a .* is expected") as caught:
            stage("metabase", tmp_path)
        assert caught.value.location == str(path) and "remove it if it is gone" in caught.value.hint


def test_what_vanishes_while_it_is_read_is_named(tmp_path: Any) -> None:
    (tmp_path / "cards").mkdir()
    found = interface.walk(tmp_path)
    assert next(found).kind == interface.DIRECTORY
    (tmp_path / "cards").rmdir()
    for read_on in (lambda: next(found), lambda: interface.content(tmp_path / "cards/1.json")):
        with pytest.raises(CannotRun, match="cannot read it: No such file") as caught:
            read_on()
        assert caught.value.location.startswith(str(tmp_path / "cards")) and caught.value.hint
