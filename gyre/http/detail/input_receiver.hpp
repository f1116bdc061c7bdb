// SPDX-License-Identifier: Apache-2.0
// input_receiver: takes the bytes of an upgraded connection as they come.
#pragma once

#include <gyre/io/input.hpp>

namespace gyre::http::detail {

/// Thread-safety: the loop's thread.
class input_receiver {
 public:
  input_receiver() = default;
  input_receiver(const input_receiver&) = delete;
  input_receiver& operator=(const input_receiver&) = delete;

  /// Consumes the bytes that it can use now.
  virtual void on_input(io::input& input) = 0;
  /// Called when no more bytes come.
  virtual void on_input_ended() noexcept = 0;

 protected:
  ~input_receiver() = default;
};

}  // namespace gyre::http::detail
