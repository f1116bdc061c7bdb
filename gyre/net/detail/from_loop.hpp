// SPDX-License-Identifier: Apache-2.0
// from_loop(): runs the functions by which a loop calls a connection.
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

/// Calls `work`, unless the group was abandoned. An exception ends the connection, as its place in
/// the stream is unknown then; all but a lack of memory are thrown on. A lack of memory is no defect
/// of the program, and a peer must not be able to end that.
template <class Work>
void from_loop(connection_io& connection, Work&& work) {
  connection_group& group = connection.group();
  const callback_gate::pass passing(group.gate());
  if (!passing) return;
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

/// The callback of a connection's request, which calls a member function of the connection.
template <auto Done>
void on_done(io::request& request, io::result result) {
  auto& connection = static_cast<connection_io&>(request.target());
  from_loop(connection, [&connection, result] { (connection.*Done)(result); });
}

/// As on_done(), of a progress_timer.
template <auto Expired>
void on_expired(timer_operation& timer) {
  connection_io& connection = *static_cast<progress_timer&>(timer).owner;
  from_loop(connection, [&connection] { (connection.*Expired)(); });
}

}  // namespace gyre::net::detail
