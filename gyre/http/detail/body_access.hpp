// SPDX-License-Identifier: Apache-2.0
// body_access: access to the private body of a response, for middleware that changes it.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/detail/body_source.hpp>
#include <gyre/http/detail/byte_sink.hpp>
#include <gyre/http/response.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace gyre::http::detail {

struct body_access {
  static bool is_whole(const response& response) noexcept { return response.source_ == nullptr; }
  static bool is_stream(const response& response) noexcept {
    return response.source_ != nullptr && response.source_->type == body_source::kind::stream;
  }
  /// Whether the body is in memory that the response does not own.
  static bool is_borrowed(const response& response) noexcept {
    return response.borrowed_body_.data() != nullptr;
  }
  static std::string take_body(response& response) noexcept { return std::move(response.body_); }
  /// Returns the length of a streamed body; nothing if it is unknown.
  static std::optional<std::uint64_t>& length(response& response) noexcept {
    return response.source_->length;
  }
  /// Returns the function that writes a streamed body.
  static move_only_function<task<>(body_writer&)>& writing_function(response& response) noexcept {
    return response.source_->write;
  }
  /// Tells that the function of an upgrade does without the request.
  static void release_request(response& response) noexcept {
    response.source_->releases_request = true;
  }
  /// Sets the function that serves an upgraded connection.
  template <class Function>
  static void set_upgrade(response& response, Function serve) {
    response.source_->run = std::move(serve);
  }
  /// Sets the function that makes the protocol of an upgraded connection.
  template <class Function>
  static void set_protocol(response& response, Function make) {
    response.source_->make_protocol = std::move(make);
  }
  /// Redirects the bytes of `writer` to `sink`, and returns the sink that received them before.
  static byte_sink& replace_sink(body_writer& writer, byte_sink& sink) noexcept {
    return *std::exchange(writer.sink_, &sink);
  }
};

}  // namespace gyre::http::detail
