// SPDX-License-Identifier: Apache-2.0
// The I/O backend of the loops of gyre's contenders. The build sets it for each program, so that
// one source serves all of them.
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

/// The backend that this contender's loops request.
inline const gyre::io_interface contender_io = [] {
  const std::string_view named = built_as.io;
  if (named == "epoll") return gyre::io_interface::epoll;
  return named == "uring" ? gyre::io_interface::uring : gyre::io_interface::automatic;
}();

/// Checks that loops get the backend that they request.
/// Errors: throws cannot_run when this machine lacks the backend, and std::runtime_error when a
/// loop uses another one although it is available: its figures would bear a wrong name.
inline void probe_contender_io() {
  using gyre::io_interface;
  if (contender_io == io_interface::automatic) return;
  if (contender_io == io_interface::uring) {
    const gyre::io::uring_support& here = gyre::io::probe_uring();
    if (!here.usable) throw cannot_run("io_uring is not available: " + here.reason);
  }
  const std::string_view wanted = contender_io == io_interface::uring ? "uring" : "epoll";
  const std::string used = gyre::loop({.io = contender_io}).metrics().io;
  if (used != wanted) {
    throw std::runtime_error("the loop uses " + used + " instead of " + std::string(wanted));
  }
}

}  // namespace lab
