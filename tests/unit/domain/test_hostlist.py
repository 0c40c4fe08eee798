from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minislurm.domain import hostlist
from minislurm.domain.hostlist import compress, expand, natural_key

_names = st.from_regex(r"[a-z0-9.-]{0,6}[0-9]{0,4}", fullmatch=True).filter(bool)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("login", ["login"]),
        ("gpu[001-003,070]", ["gpu001", "gpu002", "gpu003", "gpu070"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("r[1-2]n[08-09]-ib,x", ["r1n08-ib", "r1n09-ib", "r2n08-ib", "r2n09-ib", "x"]),
        ("a,,b, c\nd", ["a", "b", "c", "d"]),
        ("n[3,1]", ["n3", "n1"]),
    ],
)
def test_expands(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["n[", "n]", "n[1-", "n[]", "n[2-1]", "n[a]", "n[[1]]", "n[1 2]", "n[-1]", "n[١]"]
)
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="hostlist"):
        expand(text)


def test_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="more than 1000000 names"):
        expand("n[1-999999999999]")
    monkeypatch.setattr(hostlist, "MAX_NAMES", 1000)
    assert len(expand("n[1-1000]")) == 1000
    for text in ("n[0-1000]", "a[1-99]b[1-99]", "x,n[1-1000]", ",".join(["x"] * 1001)):
        with pytest.raises(ValueError, match="more than"):
            expand(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1", "n2", "n3", "n7"], "n[1-3,7]"),
        (["n9", "n10"], "n[9-10]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n1", "n02"], "n[1,02]"),
        (["a", "b1", "b2", "a1"], "a,b[1-2],a1"),
        (["n2", "n1"], "n[2,1]"),
        (["7", "8"], "[7-8]"),
        ([], ""),
    ],
)
def test_compresses(names: list[str], text: str) -> None:
    assert compress(names) == text


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a[1]", "a\x1b"])
def test_compress_refuses_what_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="not a host name"):
        compress([name])


@given(st.lists(_names, max_size=40))
def test_expand_gives_back_what_compress_took(names: list[str]) -> None:
    assert expand(compress(names)) == names


@given(st.text(alphabet="an019-,[] \n%", max_size=20))
def test_any_text_is_a_list_or_a_value_error(text: str) -> None:
    try:
        names = expand(text)
    except ValueError:
        return
    assert expand(compress(names)) == names


def test_natural_order() -> None:
    assert sorted(["n10", "n2", "n1", "a", "r2n1", "r10n1"], key=natural_key) == [
        "a", "n1", "n2", "n10", "r2n1", "r10n1",
    ]  # fmt: skip
