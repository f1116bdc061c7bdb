# SPDX-License-Identifier: Apache-2.0
"""Sections of experiments with more parameters than a chart has dimensions."""

from gyrelab import experiments, sections
from gyrelab.tests import synthetic


def test_several_facets_make_a_panel_for_each_combination() -> None:
    throughput = experiments.load_all()["throughput"]
    few = ("gyre_epoll", "asio", "libevent")
    absent = tuple(each.name for each in throughput.contenders if each.name not in few)
    measured = synthetic.results(("throughput",), grid="full", absent=absent)
    section = sections.make(measured, throughput)
    assert [panel.title for panel in section.panels][:2] == [
        "Each its own client, 1 KiB",
        "One client for all, 1 KiB",
    ]
    assert len(section.panels) == 14
    assert section.published is not None
    names = [name for name, _ in section.exports()]
    assert len(names) == len(set(names))
    assert "throughput-published-each-its-own-client-4-kib" in names
    assert {len(texts) for _, texts in section.published.rows} == {
        len(section.published.contenders)
    }
