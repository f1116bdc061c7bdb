// SPDX-License-Identifier: Apache-2.0
// byte_sink: receives the bytes of a streamed body: an exchange, or a filter that changes the
// bytes.
#pragma once

#include <gyre/task/task.hpp>

#include <cstddef>
#include <span>

namespace gyre::http::detail {

class byte_sink {
 public:
  byte_sink() = default;
  byte_sink(const byte_sink&) = delete;
  byte_sink& operator=(const byte_sink&) = delete;
  virtual ~byte_sink() = default;

  /// Writes `bytes`, which must outlive the task.
  virtual task<> write(std::span<const std::byte> bytes) = 0;
};

}  // namespace gyre::http::detail
