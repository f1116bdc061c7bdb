// SPDX-License-Identifier: Apache-2.0
// What the loops of gyre's contenders do their I/O with. The build says it of each program, so that
// one source does for all.
#pragma once

#include <gyre/exec/loop.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/io/uring_support.hpp>
#include <lab/harness/built_as.hpp>
#include <lab/harness/contender.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

namespace lab {

/// What a contender's loops are asked to stand on.
inline const gyre::io_interface contender_io = [] {
  const std::string_view named = built_as.io;
  if (named == "epoll") return gyre::io_interface::epoll;
  return named == "uring" ? gyre::io_interface::uring : gyre::io_interface::automatic;
}();

/// Throws cannot_run when this machine does not have that, and std::runtime_error when it has, but
/// a loop stands on something else: its figures would be given out for what they are not.
inline void probe_contender_io() {
  using gyre::io_interface;
  if (contender_io == io_interface::automatic) return;
  if (contender_io == io_interface::uring) {
    const gyre::io::uring_support& here = gyre::io::probe_uring();
    if (!here.usable) throw cannot_run("io_uring is not to be had: " + here.reason);
  }
  const std::string_view wanted = contender_io == io_interface::uring ? "uring" : "epoll";
  const std::string made = gyre::loop({.io = contender_io}).metrics().io;
  if (made != wanted) {
    throw std::runtime_error("the loop stands on " + made + ", not on " + std::string(wanted));
  }
}

}  // namespace lab
