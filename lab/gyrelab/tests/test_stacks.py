# SPDX-License-Identifier: Apache-2.0
"""Sampled stacks and their flame graph, from recorded output of perf."""

import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest

from gyrelab import flame, stacks

RECORDED = """\
gyre 18268/18268 
\t            e418 _dl_relocate_object (/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2)
\t           1ab77 _start (/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2)

pool 0 18268/18270 
\tffffffff813aa8b0 try_to_wake_up ([kernel.kallsyms])
\t          101829 syscall (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t728c9b607913c400 [unknown] ([unknown])

pool 0 18268/18270 
\t           2bc90 gyre::detail::pool_worker::take_back(gyre::operation&) (/lab/fork_join/gyre)
\t            bc4f fibonacci<(anonymous namespace)::gyre_pool>((anonymous namespace)::gyre_pool&) (/lab/fork_join/gyre (deleted))
\t            bceb fibonacci<(anonymous namespace)::gyre_pool>((anonymous namespace)::gyre_pool&) (/lab/fork_join/gyre (deleted))

exe 18271/18271 
\t            1234 [unknown] (/usr/lib/liburing.so.2.3)
"""  # noqa: W291 (perf ends each header with a space)


def test_samples_are_counted_by_process_from_the_outermost_frame() -> None:
    found = stacks.parse(RECORDED)
    assert (found.total, found.malformed) == (4, 0)
    assert found.stacks[18271] == Counter({("[liburing.so.2.3]",): 1})
    assert ("_start", "_dl_relocate_object") in found.stacks[18268]
    assert ("[unknown]", "syscall", "try_to_wake_up_[k]") in found.stacks[18268]


def test_direct_recursion_is_one_frame() -> None:
    [deepest] = [s for s in stacks.parse(RECORDED).stacks[18268] if "fibonacci" in s[0]]
    assert [stacks.brief(each) for each in deepest] == [
        "fibonacci",
        "gyre::detail::pool_worker::take_back",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "Warning: 3 samples lost\n",
        "\t 1234 main (/bin/true)\n",  # a frame without a sample
        "gyre 1/1\n\tnot a frame\n",
        "gyre 1/1\n",  # a sample without frames
        "gyre 1\n\t12 main (/bin/true)\n",
    ],
)
def test_malformed_lines_are_counted_and_make_no_sample(text: str) -> None:
    found = stacks.parse(text)
    assert found.total == 0
    assert found.malformed == sum(
        bool(line.strip()) and line != "gyre 1/1" for line in text.splitlines()
    )


def test_output_cut_off_in_a_sample_keeps_its_frames() -> None:
    found = stacks.parse("gyre 1/1\n\t12 inner (/bin/true)\n\t13 out")
    assert found.stacks == {1: Counter({("out", "inner"): 1})}


@pytest.mark.parametrize(
    ("function", "brief"),
    [
        ("non-virtual thunk to gyre::worker::take(gyre::operation&)", "gyre::worker::take"),
        ("void run<pool<1ul> >(int)", "run"),
        ("ring<a<b> >::ring(unsigned)::{lambda()#1}::operator()() const", "ring::ring::{lambda#1}"),
        ("std::operator<< <char>(x)", "std::operator<<"),
        ("do_syscall_64_[k]", "do_syscall_64 [kernel]"),
        ("(anonymous namespace)::go(int)", "{anonymous}::go"),
        ("(odd", "(odd"),
    ],
)
def test_brief_names_keep_the_part_that_tells_functions_apart(function: str, brief: str) -> None:
    assert stacks.brief(function).startswith(brief)


def test_flame_graph_is_valid_and_its_widths_are_shares() -> None:
    counted = Counter({("main", "f<int>"): 3, ("main", 'g "&"'): 1})
    root = ElementTree.fromstring(flame.draw(counted, "a & b"))
    space = "{http://www.w3.org/2000/svg}"
    widths = {
        bar.findtext(f"{space}title"): float(bar.find(f"{space}rect").attrib["width"])  # type: ignore[union-attr]
        for bar in root.iter(f"{space}g")
    }
    assert widths["a & b: 100.0% of 4 samples"] == 1200
    assert widths["f<int>: 75.0% of 4 samples"] == 900
    assert widths['g "&": 25.0% of 4 samples'] == 300


def test_flame_graph_of_no_samples_has_no_bar() -> None:
    assert "<rect" not in flame.draw(Counter(), "nothing")
