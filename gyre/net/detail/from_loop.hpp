// SPDX-License-Identifier: Apache-2.0
// from_loop: runs the functions by which a loop calls a connection.
#pragma once

#include <gyre/base/timer_operation.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/detail/callback_gate.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/connection_io.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/progress_timer.hpp>

#include <new>

namespace gyre::net::detail {

/// Calls `work`, unless the group was abandoned. An exception aborts the connection, whose position
/// in the stream is then unknown, and is rethrown. std::bad_alloc is not rethrown, because it is
/// not a defect of the program, and a peer must not be able to end the program by it.
template <class Work>
void from_loop(connection_io& connection, Work&& work) {
  connection_group& group = connection.group();
  const callback_gate::pass gate_pass(group.gate());
  if (!gate_pass) return;
  try {
    work();
    if (group.drains()) [[unlikely]]
      group.drain(connection);
  } catch (const std::bad_alloc&) {
    connection.abort(no_memory());
  } catch (...) {
    connection.abort(io::errc::aborted);
    throw;
  }
}

/// Calls a member function of a part of `connection` by from_loop().
template <class Part, class... Arguments>
void call_from_loop(connection_io& connection, void (Part::*function)(Arguments...),
                    Arguments... arguments) {
  Part& part = connection;
  from_loop(connection, [&] { (part.*function)(arguments...); });
}

/// The callback of a connection's request, which calls the member function `Done` of a part.
template <auto Done>
void on_done(io::request& request, io::result result) {
  call_from_loop(static_cast<connection_io&>(request.target()), Done, result);
}

/// The callback of a progress_timer, which calls the member function `Expired` of a part.
template <auto Expired>
void on_expired(timer_operation& timer) {
  call_from_loop(*static_cast<progress_timer&>(timer).owner, Expired);
}

}  // namespace gyre::net::detail
