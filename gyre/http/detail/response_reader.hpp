// SPDX-License-Identifier: Apache-2.0
// response_reader: reads the heads of a response, interim ones included, and its body.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/http/client_options.hpp>
#include <gyre/http/detail/chunked_decoder.hpp>
#include <gyre/http/detail/client_stream.hpp>
#include <gyre/http/detail/message_parser.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::http::detail {

/// A phase, for messages of errors.
inline constexpr const char* reading_body = "reading the body of the response";

/// Reads the response to one request. A read that was stopped can be begun again.
///
/// Lifetime: all that the constructor gets must outlive it, but the connection only the reads.
class response_reader {
 public:
  /// `method`: of the request, which decides of a body.
  response_reader(client_connection& from, const request_clock& clock,
                  const client_options& options, std::string_view method);
  response_reader(const response_reader&) = delete;
  response_reader& operator=(const response_reader&) = delete;

  /// Reads the next head. Its first byte must come until `first_byte`.
  task<> read_head(steady_time first_byte);
  /// Reads heads up to the first that is not interim.
  task<> read_final_head(steady_time first_byte);
  /// Notes that the head is that of an interim response. Errors: errc::unexpected_status.
  void count_interim();
  /// The next bytes of the body, without chunks; valid until the next call. Nothing at its end.
  task<std::optional<std::span<const std::byte>>> next_piece();
  /// Waits for bytes behind the response; false at the end of the connection.
  task<bool> wait_for_more();
  /// Whether reads that begin from now on have the time limit between bytes.
  void limit_gaps(bool limited) noexcept { gaps_are_limited_ = limited; }

  /// Whether a byte of a response has come.
  bool has_begun() const noexcept { return begun_; }
  const response_head& head() const noexcept { return head_; }
  /// The body's, before decompression.
  std::optional<std::uint64_t> content_length() const noexcept;
  field_list fields() const noexcept { return field_list(head_.fields); }
  field_list trailers() const noexcept { return field_list(trailers_); }
  /// For a body that is unpacked: its length and coding are of no more use.
  void hide_content_coding();
  /// The time for which the server keeps the idle connection by "Keep-Alive: timeout=N", less a
  /// second for which the response may have been on its way. Nothing: it does not say.
  std::optional<std::chrono::seconds> idle_time_of_server() const noexcept;
  /// Whether the body was read, and the connection can serve another request.
  bool leaves_reusable() const noexcept {
    return complete_ && head_.framing.keep_alive && from_.in.empty();
  }

 private:
  bool take_head();
  std::optional<std::span<const std::byte>> take_piece();
  std::span<const std::byte> take_of_length();
  void keep_trailers();
  task<bool> read_more(steady_time expiry, const char* phase);
  steady_time end_of_gap() const noexcept {
    return gaps_are_limited_ ? clock_.expiry_of(between_bytes_) : steady_time::max();
  }

  client_connection& from_;
  const request_clock& clock_;
  const std::chrono::nanoseconds between_bytes_;
  const std::size_t most_interim_;
  const head_limits limits_;
  const std::string method_;
  head_scanner scanner_;
  chunked_decoder chunks_;
  response_head head_;
  std::string head_text_;
  std::string trailer_text_;
  std::vector<field> trailers_;
  std::uint64_t remaining_ = 0;
  std::size_t interim_ = 0;
  bool begun_ = false;
  bool complete_ = false;
  bool ended_ = false;  // so has the connection
  bool gaps_are_limited_ = true;
};

}  // namespace gyre::http::detail
