// SPDX-License-Identifier: Apache-2.0
// body_filter: changes the bytes of a streamed body on their way to the client.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/detail/body_source.hpp>
#include <gyre/http/response.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gyre::http::detail {

class body_filter {
 public:
  body_filter() = default;
  body_filter(const body_filter&) = delete;
  body_filter& operator=(const body_filter&) = delete;

  virtual task<> write(std::span<const std::byte> bytes) = 0;

 protected:
  ~body_filter() = default;
};

/// The bodies of responses, for middleware of the room.
struct body_access {
  static bool is_whole(const response& response) noexcept { return response.source_ == nullptr; }
  static bool is_stream(const response& response) noexcept {
    return response.source_ != nullptr && response.source_->which == body_source::kind::stream;
  }
  /// The length of a stream; nothing if it is unknown.
  static std::optional<std::uint64_t>& length(response& response) noexcept {
    return response.source_->length;
  }
  /// The function of a stream.
  static move_only_function<task<>(body_writer&)>& writing_function(response& response) noexcept {
    return response.source_->write;
  }
  static void set_filter(body_writer& writer, body_filter* filter) noexcept {
    writer.filter_ = filter;
  }
  static task<> write_unfiltered(body_writer& writer, std::span<const std::byte> bytes) {
    return writer.write_unfiltered(bytes);
  }
};

}  // namespace gyre::http::detail
