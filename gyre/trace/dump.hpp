// SPDX-License-Identifier: Apache-2.0
// dump_text, dump_json: what the flight recorder has kept of the last seconds, for people and for
// trace viewers.
//
//     std::cerr << gyre::trace::dump_text();
//     std::ofstream("trace.json") << gyre::trace::dump_json({.last = 5s});
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <string>

namespace gyre::trace {

/// Settings of a dump.
struct dump_options {
  /// How far back the dump goes. The rings of busy threads may hold less: see set_ring_size().
  duration last = std::chrono::seconds{30};
  /// The shortest time that dump_text() mentions.
  duration slow = std::chrono::milliseconds{5};
};

/// Describes what took long in the last seconds: what holds each thread now, which task, coroutine
/// or handler has held it before, pauses of the whole process, and waits: requests, look-ups of
/// names, connection attempts, handshakes, late timers and spans. One line for each, the longest
/// first, such as
///
/// > thread 'network' (4712) was held 312 ms by handler GET /report (3 times, 821 ms in total, the
/// > latest 1.2 s ago)
///
/// Functions are named by the symbol tables of the program's files; a program that was stripped
/// shows the file and the offset, which `tools/trace` resolves.
///
/// Thread-safety: any thread. Other threads continue to record meanwhile, without waiting, except
/// that threads that record their first event wait for a moment.
/// Errors: std::bad_alloc.
/// Complexity: O(events + symbols of the program); milliseconds.
std::string dump_text(const dump_options& options = {});

/// Returns the events of the last seconds as JSON in the Trace Event Format of Chrome, which
/// Perfetto (ui.perfetto.dev, also offline) and `tools/trace` open: a row for each thread, arrows
/// from a wake-up to the thread that woke, and requests, look-ups and spans as rows of their own.
/// Times are microseconds of CLOCK_MONOTONIC, so that the dumps of several processes of one machine
/// fit together. For threads and errors see dump_text(). O(events).
std::string dump_json(const dump_options& options = {});

}  // namespace gyre::trace
