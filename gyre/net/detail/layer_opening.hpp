// SPDX-License-Identifier: Apache-2.0
// layer_opening: the handshake of a layer on a socket that no callback connection owns yet.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/layered_core.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/task/detail/started_task.hpp>

#include <cstddef>
#include <memory>
#include <system_error>

namespace gyre::net::detail {

/// Runs the coroutine shake_hands() for callbacks. What the handshake holds counts in the memory
/// limit of the group.
///
/// Thread-safety: none; belongs to the loop's thread.
/// Lifetime: the group must outlive it. Destroyed before its end, it closes the connection.
class layer_opening final : gyre::detail::started_task<layer_opening>, handshake_observer {
 public:
  /// Called once, in a turn of the loop; may destroy the opening.
  using function = move_only_function<void(std::error_code)>;

  /// Throws std::bad_alloc.
  layer_opening(connection_group& group, unique_fd connection, std::unique_ptr<layer> protocol,
                function callback);
  layer_opening(const layer_opening&) = delete;
  layer_opening& operator=(const layer_opening&) = delete;
  ~layer_opening();

  /// Begins, once; `callback` is called later.
  void start();

  /// After it is done: the connection, and its layer.
  unique_fd release() noexcept { return core_->inner.release(); }
  std::unique_ptr<layer> take_layer() noexcept { return std::move(core_->protocol); }

 private:
  friend started_task;

  layer_opening(connection_group& group, core_ptr core, function callback);

  std::error_code note_step(const layer& protocol) noexcept override;
  void work_ended() noexcept;
  bool count_held(std::size_t bytes) noexcept;
  void end();

  connection_group& group_;
  const core_ptr core_;
  function callback_;
  std::error_code result_;   // of the time limit, until the work has ended
  std::size_t counted_ = 0;  // bytes
  timer end_timer_;          // the time limit, or the call of `callback`, which may throw
};

}  // namespace gyre::net::detail
