"""A workspace for each tenant: what one finds of another, what all share, how many are open, and how one is removed."""

import json
import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pydantic import SecretStr

from backstory.base.environment import ANSWER_KEY_VARIABLE
from backstory.base.errors import InputError, StateError
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.tenants import LEAST_BYTES, Tenants
from backstory.models.embeddings.local_embedder import LocalEmbedder
from backstory.storage.state import close_idle
from tests.caches import open_accounts
from tests.errors import raises
from tests.index.conftest import make_corpus
from tests.milvus import serve_milvus
from tests.models.services.chat_server import ChatReply, ChatRequest, complete, run_chat_server
from tests.privileges import NOBODY

NAMES = ("cellar", "garden", "kitchen")
MARKS = {name: f"zyx{number}quill" for number, name in enumerate(NAMES)}
"""A word that the documents of one tenant hold, and nothing else does."""

PLENTY = 1 << 40


def open_tenants(root: Path, memory_bytes: int = PLENTY) -> Tenants:
    keys = KeyRing(Accounts(open_accounts(root)).state, root.with_name("service.key"))
    return Tenants(root, keys, memory_bytes=memory_bytes)


def use_hashing(folder: Path) -> None:
    settings = folder / "backstory.yaml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(f"{text}\nembedding: {{provider: hashing}}\n", encoding="utf-8")


@pytest.fixture(scope="session")
def served_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service with indexed documents of three tenants, which no test changes."""
    root = tmp_path_factory.mktemp("served") / "root"
    tenants = open_tenants(root)
    for name, mark in MARKS.items():
        folder = tenants.create(name)
        use_hashing(folder)
        for word in ("frost", "bread"):
            text = f"# The {word} of {mark}\n\nThe {mark} says that {word} comes in the night.\n"
            (folder / "posts" / f"{word}-{mark}.md").write_text(text, encoding="utf-8")
        with tenants.entering(name) as library:
            assert library.index().indexed == 2
    tenants.close()
    return root


@pytest.fixture
def root(served_once: Path, tmp_path: Path) -> Path:
    """A copy of the folder."""
    shutil.copytree(served_once, tmp_path / "root", symlinks=True)
    return tmp_path / "root"


def dump_everything(library: Library) -> str:
    """Ask a library for everything that it tells, and join it."""
    questions = [*MARKS.values(), "frost", "bread", *(f"frost-{mark}.md" for mark in MARKS.values())]
    told: list[object] = [answer.to_dict() for answer in library.search_many(questions)]
    told += [library.answer(f"What does the {mark} say?").to_dict() for mark in MARKS.values()]
    told += [library.grep("zyx").to_dict(), library.status().to_dict()]
    for document in library.documents().documents:
        told.append(library.text(document.path).to_dict())
    return json.dumps(told, default=str)


def test_no_tenant_is_told_anything_of_another(root: Path) -> None:
    tenants = open_tenants(root)
    assert tenants.names() == NAMES
    for name in NAMES:
        with tenants.entering(name) as library:
            told = dump_everything(library)
            named = [document.path for document in library.documents().documents]
        asked = set(re.findall(r"zyx\dquill", json.dumps(named)))
        assert asked == {MARKS[name]}
        assert f"The {MARKS[name]} says" in told
        for other, mark in MARKS.items():
            assert other == name or f"The {mark} says" not in told
    tenants.close()


def test_threads_that_enter_all_tenants_at_once_find_only_their_own(root: Path) -> None:
    tenants = open_tenants(root, memory_bytes=2 * LEAST_BYTES)

    def ask(turn: int) -> tuple[str, list[str]]:
        name = NAMES[turn % len(NAMES)]
        with tenants.entering(name) as library:
            hits = library.search("what comes in the night").hits
            return name, [hit.text for hit in hits]

    with ThreadPoolExecutor(8) as pool:
        for name, texts in pool.map(ask, range(120)):
            assert len(texts) == 2
            assert all(MARKS[name] in text for text in texts)
    assert len(tenants.open_names) == 1
    tenants.close()
    assert not tenants.open_names


OTHER_TEXTS = [
    "", ".", "..", "../garden", "garden/", "garden/../kitchen", "./garden", "/garden", "gar%", "gar*", "g?rden",
    "garden'", 'garden"', "garden\x00", "garden\n", "garden ", "GARDEN", "gаrden", "ｇarden", "garden\u200b",
    ".new-garden", ".removed-garden", "-garden", "g" * 64, "nobody",
]  # fmt: skip


@pytest.mark.parametrize("name", OTHER_TEXTS)
def test_whatever_is_no_tenant_gives_the_same_answer(root: Path, name: str) -> None:
    tenants = open_tenants(root)
    told = set()
    for use in (tenants.folder, tenants.remove, lambda text: tenants.entering(text).__enter__()):
        with raises(InputError, "unknown_tenant") as raised:
            use(name)
        told.add(str(raised.value))
    with raises(InputError, "unknown_tenant") as raised:
        tenants.folder("nothing-of-this-name")
    assert told == {str(raised.value)}
    assert tenants.names() == NAMES


@pytest.mark.parametrize("name", [text for text in OTHER_TEXTS if text != "nobody"])
def test_no_other_text_becomes_a_folder(root: Path, name: str) -> None:
    before = sorted(root.rglob("*"))
    with raises(InputError, "bad_tenant_name", name):
        open_tenants(root).create(name)
    assert sorted(root.rglob("*")) == before


def test_a_tenant_is_made_whole_private_and_once(root: Path) -> None:
    tenants = open_tenants(root)
    folder = tenants.create("attic")
    assert folder.stat().st_mode & 0o077 == 0
    assert folder.parent.stat().st_mode & 0o077 == 0
    assert str(root) not in (folder / "backstory.yaml").read_text(encoding="utf-8")
    (folder / "posts" / "mine.md").write_text("mine", encoding="utf-8")
    with raises(InputError, "known_tenant", "attic"):
        tenants.create("attic")
    assert (folder / "posts" / "mine.md").exists()
    assert tenants.names() == ("attic", *NAMES)
    assert not list(root.rglob(".new-*"))


def test_what_a_killed_process_left_of_a_new_tenant_is_none_and_goes(root: Path) -> None:
    tenants = open_tenants(root)
    folder = tenants.create("attic")
    folder.rename(folder.with_name(".new-attic"))
    assert tenants.names() == NAMES
    tenants.create("attic")
    assert tenants.names() == ("attic", *NAMES)
    assert not list(root.rglob(".new-*"))


def test_a_link_in_a_tenants_folder_leads_nowhere_else(root: Path) -> None:
    tenants = open_tenants(root)
    posts, others = tenants.folder("garden") / "posts", tenants.folder("kitchen") / "posts"
    [other, *_] = sorted(others.iterdir())
    (posts / "file.md").symlink_to(other)
    (posts / "relative.md").symlink_to(Path("../../kitchen/posts") / other.name)
    (posts / "folder").symlink_to(others)
    (posts / "all").symlink_to(root)
    with tenants.entering("garden") as library:
        library.index()
        told = dump_everything(library)
        assert {document.uri for document in library.documents().documents} == {
            f"{word}-{MARKS['garden']}.md" for word in ("frost", "bread")
        }
    assert f"The {MARKS['kitchen']} says" not in told
    tenants.close()


def test_a_link_in_the_place_of_a_tenant_is_none(root: Path) -> None:
    tenants = open_tenants(root)
    (root / "tenants" / "attic").symlink_to(root / "tenants" / "kitchen")
    assert tenants.names() == NAMES
    for use in (tenants.folder, lambda text: tenants.entering(text).__enter__()):
        with raises(InputError, "unknown_tenant"):
            use("attic")


def test_equal_settings_share_one_model_and_other_settings_do_not(root: Path) -> None:
    tenants = open_tenants(root)
    models = []
    for name in NAMES:
        settings = tenants.folder(name) / "backstory.yaml"
        local = "provider: local, runtime: cuda" if name == "cellar" else "provider: local"
        changed = settings.read_text("utf-8").replace("provider: hashing", local)
        settings.write_text(changed, encoding="utf-8")
        with tenants.entering(name) as library:
            embedder = library.workspace.embedder
        assert isinstance(embedder, LocalEmbedder)
        models.append(embedder.onnx)
    cellar, garden, kitchen = models
    assert garden is kitchen
    assert cellar is not garden
    tenants.close()


def count_open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system has no list of open files")
def test_the_least_recently_used_are_closed_and_none_in_use(root: Path) -> None:
    tenants = open_tenants(root, memory_bytes=0)
    close_idle()
    before = count_open_files()
    with tenants.entering("garden") as garden:
        garden.search("frost")
        for name in ("kitchen", "cellar"):
            with tenants.entering(name) as library:
                library.search("frost")
            assert tenants.open_names == ("garden",)
        assert len(garden.search("frost").hits) == 2
        with tenants.entering("garden") as again:
            assert again is garden
    assert tenants.open_names == ()
    assert tenants.open_bytes == 0
    close_idle()
    assert count_open_files() <= before


def test_as_many_stay_open_as_fit(root: Path) -> None:
    tenants = open_tenants(root)
    for name in NAMES:
        with tenants.entering(name) as library:
            library.search("frost")
    size = tenants.open_bytes
    assert size > 3 * LEAST_BYTES
    tenants.close()
    tenants = open_tenants(root, memory_bytes=size - 1)
    for name in (*NAMES, "garden"):
        with tenants.entering(name) as library:
            library.search("frost")
    assert tenants.open_names == ("kitchen", "garden")
    with tenants.entering("cellar") as library:
        library.search("frost")
    assert tenants.open_names == ("garden", "cellar")
    tenants.close()


def test_changed_settings_and_keys_are_those_of_the_next_who_enters(root: Path) -> None:
    tenants = open_tenants(root)
    with tenants.entering("garden") as first:
        settings = tenants.folder("garden") / "backstory.yaml"
        settings.write_text(f"{settings.read_text('utf-8')}rag: {{top_k: 1}}\n", encoding="utf-8")
        with tenants.entering("garden") as second:
            assert second.workspace.settings.rag.top_k == 1
            assert len(first.search("frost").hits) == 2
        # As another process stores it.
        open_tenants(root).keys.seal("garden", ANSWER_KEY_VARIABLE, SecretStr("sk-garden"))
        with tenants.entering("garden") as third:
            assert third.workspace.keys == {ANSWER_KEY_VARIABLE: SecretStr("sk-garden")}
            assert second.workspace.keys == {}
    tenants.close()


def test_each_tenants_questions_go_to_its_service_with_its_key(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(ANSWER_KEY_VARIABLE, "sk-of-the-process")
    sent: dict[str, set[str | None]] = {name: set() for name in NAMES}

    def answer(request: ChatRequest) -> ChatReply | None:
        [name] = [name for name, mark in MARKS.items() if mark in request.user]
        sent[name].add(request.headers.get("authorization"))
        return complete(json.dumps({"claims": []}))(request)

    tenants = open_tenants(root)
    with run_chat_server() as server:
        server.always = answer
        for name in NAMES:
            settings = tenants.folder(name) / "backstory.yaml"
            served = (
                f"services: {{mine: {{kind: openai, base_url: '{server.url}', max_attempts: 1, "
                "requests_per_minute: 1000}}\nanswers: {provider: mine, model: tiny}\n"
                "costs: {prices: {tiny: {input: 100, output: 1000}}}\n"
            )
            settings.write_text(settings.read_text("utf-8") + served, encoding="utf-8")
        keys = open_tenants(root).keys
        keys.seal("garden", ANSWER_KEY_VARIABLE, SecretStr("sk-garden"))
        keys.seal("kitchen", ANSWER_KEY_VARIABLE, SecretStr("sk-kitchen"))

        def ask(turn: int) -> None:
            name = NAMES[turn % len(NAMES)]
            with tenants.entering(name) as library:
                library.answer(f"What does the {MARKS[name]} say of {turn}?")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(ask, range(18)))
    assert sent == {"cellar": {None}, "garden": {"Bearer sk-garden"}, "kitchen": {"Bearer sk-kitchen"}}
    tenants.close()


def test_nothing_is_left_of_a_removed_tenant(root: Path) -> None:
    accounts = Accounts(open_accounts(root))
    accounts.add_user("anna")
    accounts.grant("anna", "garden", "owner")
    accounts.grant("anna", "kitchen", "reader")
    tenants = open_tenants(root)
    tenants.keys.seal("garden", ANSWER_KEY_VARIABLE, SecretStr("sk-garden"))
    with tenants.entering("garden") as library:
        library.search("frost")
    proof = tenants.remove("garden")
    assert proof.is_complete
    assert (proof.left, proof.left_rows, proof.removed_rows) == ((), 0, 2)
    assert proof.removed_files > 10
    assert proof.searched_files > 20
    assert tenants.names() == ("cellar", "kitchen")
    assert tenants.open_names == ()
    for path in root.rglob("*"):
        assert "garden" not in path.name
        assert not path.is_file() or MARKS["garden"].encode() not in path.read_bytes()
    with raises(InputError, "unknown_tenant"):
        tenants.entering("garden").__enter__()
    assert [dict(user.roles) for user in accounts.list_users()] == [{"kitchen": "reader"}]
    tenants.create("garden")
    with tenants.entering("garden") as library:
        assert library.workspace.keys == {}
    tenants.close()


def copy_link(folder: Path, other: Path) -> Path:
    path = other / "kept.md"
    path.hardlink_to(next(iter(sorted((folder / "posts").iterdir()))))
    return path


def name_path(folder: Path, other: Path) -> Path:
    path = other / "notes.txt"
    path.write_text(f"{'a' * 2_000_000} see {folder}/posts", encoding="utf-8")
    return path


@pytest.mark.parametrize("leave", [copy_link, name_path])
def test_a_file_elsewhere_that_holds_something_of_it_is_named(
    root: Path, leave: Callable[[Path, Path], Path]
) -> None:
    tenants = open_tenants(root)
    left = leave(tenants.folder("garden"), tenants.folder("kitchen"))
    proof = tenants.remove("garden")
    assert not proof.is_complete
    assert proof.left == (left.relative_to(root).as_posix(),)


def test_a_removal_waits_for_who_has_entered_and_lets_nobody_in(root: Path) -> None:
    tenants, elsewhere = open_tenants(root), open_tenants(root)
    with ThreadPoolExecutor(1) as pool:
        with tenants.entering("garden") as library:
            removing = pool.submit(elsewhere.remove, "garden")
            while "garden" in tenants.names():
                assert not removing.done()
            with raises(InputError, "unknown_tenant"):
                tenants.entering("garden").__enter__()
            assert not removing.done()
            assert elsewhere.list_interrupted() == ("garden",)
            assert library.workspace.root.name == "garden"
        assert removing.result().is_complete
    assert elsewhere.list_interrupted() == ()


def test_what_another_process_removed_is_closed_when_the_next_one_leaves(root: Path) -> None:
    tenants = open_tenants(root)
    for name in ("garden", "kitchen"):
        with tenants.entering(name) as library:
            library.search("frost")
    assert open_tenants(root).remove("garden").is_complete
    assert list(tenants.open_names) == ["garden", "kitchen"]
    with tenants.entering("kitchen"):
        pass
    assert list(tenants.open_names) == ["kitchen"]
    tenants.close()


def test_a_removal_that_cannot_finish_is_told_and_repeated(
    served_once: Path, open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]]
) -> None:
    root = open_folder / "root"
    shutil.copytree(served_once, root)
    if os.geteuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, NOBODY, -1)
    with shut(root, 0o700):
        tenants = open_tenants(root)
        (tenants.folder("garden") / "posts").chmod(0o500)
        aside = root.resolve() / "tenants" / ".removed-garden"
        with raises(StateError, "unfinished_removal", "garden", aside):
            tenants.remove("garden")
        assert (tenants.names(), tenants.list_interrupted()) == (("cellar", "kitchen"), ("garden",))
        (aside / "posts").chmod(0o700)
        assert tenants.remove("garden").is_complete
        assert tenants.list_interrupted() == ()


def test_an_interrupted_removal_is_told_and_goes_on(root: Path) -> None:
    tenants = open_tenants(root)
    (root / "tenants" / "garden").rename(root / "tenants" / ".removed-garden")
    assert tenants.list_interrupted() == ("garden",)
    assert tenants.names() == ("cellar", "kitchen")
    # A later tenant would have its roles and keys, and lose its folder when the removal goes on.
    with raises(StateError, "unfinished_removal", "garden"):
        tenants.create("garden")
    assert tenants.remove("garden").is_complete
    assert not list(root.rglob("*garden*"))


def test_a_server_of_vectors_that_is_gone_for_good_keeps_no_tenant(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = open_tenants(root)
    with serve_milvus(root.with_name("milvus")) as uri:
        make_corpus(4).build(tenants.folder("garden") / "index", engine="milvus", uri=uri)
    monkeypatch.setattr("backstory.index.milvus._CONNECT_SECONDS", 0.5)
    for _ in range(2):  # its folder is aside the second time
        with raises(StateError, "unfinished_removal", "garden"):
            tenants.remove("garden")
    shutil.rmtree(root / "tenants" / ".removed-garden" / "index")
    assert tenants.remove("garden").is_complete
    assert (tenants.names(), tenants.list_interrupted()) == (("cellar", "kitchen"), ())
