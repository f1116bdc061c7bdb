// SPDX-License-Identifier: Apache-2.0
// body_access: the bodies of responses, for middleware that changes them.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/detail/body_source.hpp>
#include <gyre/http/detail/byte_sink.hpp>
#include <gyre/http/response.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace gyre::http::detail {

struct body_access {
  static bool is_whole(const response& response) noexcept { return response.source_ == nullptr; }
  static bool is_stream(const response& response) noexcept {
    return response.source_ != nullptr && response.source_->type == body_source::kind::stream;
  }
  /// The length of a stream; nothing if it is unknown.
  static std::optional<std::uint64_t>& length(response& response) noexcept {
    return response.source_->length;
  }
  /// The function of a stream.
  static move_only_function<task<>(body_writer&)>& writing_function(response& response) noexcept {
    return response.source_->write;
  }
  /// Sets where the writer's bytes go, and returns where they went.
  static byte_sink& replace_sink(body_writer& writer, byte_sink& sink) noexcept {
    return *std::exchange(writer.sink_, &sink);
  }
};

}  // namespace gyre::http::detail
