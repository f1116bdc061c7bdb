// SPDX-License-Identifier: Apache-2.0
// The loop of gyre's contenders with a coroutine per end.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <lab/experiments/timeout/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <unistd.h>

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace lab::timeout {

/// `Serve::run(stream, reader)` is the coroutine of an end.
template <class Serve>
class coroutine_loop {
 public:
  static void probe() { probe_contender_io(); }

  explicit coroutine_loop(readers& ends) : ends_(ends) {
    for (const reader& each : ends) {
      streams_.emplace_back(loop_, gyre::unique_fd(::dup(each.fd())),
                            gyre::io::handle_kind::stream_socket);
    }
  }

  void run() {
    std::vector<gyre::task<>> all;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      all.push_back(Serve::run(streams_[i], ends_[i]));
    }
    gyre::sync_wait(loop_, gyre::when_all(std::move(all)));
  }

 private:
  readers& ends_;
  gyre::loop loop_{{.io = contender_io}};
  std::deque<gyre::io::stream> streams_;
};

}  // namespace lab::timeout
