// SPDX-License-Identifier: Apache-2.0
// incoming_response: the response to a client's request, interim ones included, without I/O.
//
//     incoming_response response(options.limits, "GET");
//     auto is_whole = response.take_head(input);  // false: receive more, and call it again
//     while (response.reader().expects_body()) {
//       auto piece = response.take_piece(input);
//     }
#pragma once

#include <gyre/http/client_options.hpp>
#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/message_parser.hpp>
#include <gyre/http/detail/message_reader.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/io/input.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http::detail {

/// The head of a response, which is kept in memory, and the reader of its body.
class incoming_response {
 public:
  /// `request_method`: decides whether the response has a body.
  incoming_response(const client_limits& limits, std::string_view request_method);
  incoming_response(const incoming_response&) = delete;
  incoming_response& operator=(const incoming_response&) = delete;

  /// Consumes a head. Returns false if more bytes must come. Errors: those of head_scanner, and of
  /// parse_response_head().
  [[nodiscard]] std::expected<bool, errc> take_head(io::input& input);
  /// Takes a head of HTTP/2, which begins with ":status". `is_end`: whether no body follows.
  /// Errors: those of read_http2_response().
  [[nodiscard]] errc take_head(header_block head, bool is_end);
  /// Takes the head of an interim response of HTTP/2, whose fields are dropped.
  void take_interim(unsigned status) noexcept {
    is_http2_ = true;
    head_.status = status;
  }
  bool is_interim() const noexcept { return head_.status < 200; }
  /// Skips the interim response whose head was taken; take_head() then takes the next head. Errors:
  /// those of message_reader::skip_interim().
  [[nodiscard]] errc skip_interim() noexcept {
    return reader_.skip_interim(head_.status, max_interim_);
  }
  /// Returns the next bytes of the body: see message_reader::next(). Stores an error in the reader,
  /// which then expects no more bytes.
  [[nodiscard]] std::expected<std::span<const std::byte>, errc> take_piece(io::input& input) {
    auto piece = reader_.next(input, limits_);
    if (!piece) reader_.fail(piece.error());
    return piece;
  }
  /// Counts bytes of a body of HTTP/2. Errors: body_too_large, for more than were announced.
  [[nodiscard]] errc take_piece(std::size_t count) noexcept {
    const errc error = reader_.add(count);
    if (error != no_error) reader_.fail(error);
    return error;
  }
  /// Called at the end of a body of HTTP/2.
  void end_body(const header_block& trailers) { reader_.end(trailers); }
  /// Called when the server has ended its side. Errors: truncated, within the body.
  [[nodiscard]] errc end_input() noexcept { return reader_.end_input(); }

  const message_reader& reader() const noexcept { return reader_; }
  const response_head& head() const noexcept { return head_; }
  bool is_http2() const noexcept { return is_http2_; }
  /// Returns the length of the body as it is sent, before decompression.
  std::optional<std::uint64_t> content_length() const noexcept;
  field_list fields() const noexcept { return field_list(head_.fields); }
  field_list trailers() const noexcept { return reader_.trailers(); }
  /// Hides Content-Encoding and Content-Length, which do not describe an unpacked body.
  void hide_content_coding();
  /// Returns the time for which the server keeps an idle connection ("Keep-Alive: timeout=N"),
  /// minus one second for the transit of the response. Returns nothing if the server sends no such
  /// time.
  std::optional<std::chrono::seconds> idle_time_of_server() const noexcept;

 private:
  const std::size_t max_interim_;
  const head_limits limits_;
  const std::string request_method_;
  head_scanner scanner_;
  message_reader reader_;
  response_head head_;
  std::string head_text_;     // the head of HTTP/1.1
  header_block head_fields_;  // the head of HTTP/2
  bool is_http2_ = false;
};

}  // namespace gyre::http::detail
