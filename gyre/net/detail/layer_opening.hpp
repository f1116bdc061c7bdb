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

/// Runs the coroutine shake_hands() for code with callbacks. The memory that the handshake holds
/// counts in the memory limit of the group.
///
/// Thread-safety: none; belongs to the loop's thread.
/// Lifetime: the group must outlive the opening. The destructor closes the connection if the
/// handshake has not ended.
class layer_opening final : gyre::detail::started_task<layer_opening>, handshake_observer {
 public:
  /// The function that is called once with the result, in a turn of the loop. It may destroy the
  /// opening.
  using function = move_only_function<void(std::error_code)>;

  /// Prepares the opening. Throws std::bad_alloc.
  layer_opening(connection_group& group, unique_fd connection, std::unique_ptr<layer> protocol,
                function callback);
  layer_opening(const layer_opening&) = delete;
  layer_opening& operator=(const layer_opening&) = delete;
  ~layer_opening();

  /// Begins the handshake; must be called once. `callback` is called in a later turn.
  void start();

  /// Called after the handshake: release() returns the connection, and take_layer() its layer.
  unique_fd release() noexcept { return core_->inner.release(); }
  std::unique_ptr<layer> take_layer() noexcept { return std::move(core_->protocol); }

 private:
  friend started_task;

  layer_opening(connection_group& group, core_ptr core, function callback);

  std::error_code note_step(const layer& protocol) noexcept override;
  void on_work_ended() noexcept;
  bool count_held(std::size_t bytes) noexcept;
  void end();

  connection_group& group_;
  const core_ptr core_;
  function callback_;
  std::error_code result_;         // the error of the time limit, until the handshake has ended
  std::size_t counted_bytes_ = 0;  // how many bytes the group counts
  timer end_timer_;  // runs the time limit; then makes the call of `callback`, which may throw
};

}  // namespace gyre::net::detail
