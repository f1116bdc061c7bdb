// SPDX-License-Identifier: Apache-2.0
// The client's end of one HTTP/2 connection (RFC 9113) without I/O, as the load of the lab needs
// it: equal requests on many streams, and a check of every response. nghttp2 codes the fields; all
// else is done here, so that the client costs little.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

extern "C" {
struct nghttp2_hd_deflater;
struct nghttp2_hd_inflater;
}

namespace lab::http2 {

/// The requests of a connection, all equal, and the response to each.
struct exchange_plan {
  std::string authority;
  std::string target = "/plain";
  std::string_view sent_body;      ///< the body of each request, a POST; empty: a GET
  std::string_view expected_body;  ///< the body of each response
};

/// One connection. All bytes to send are in output().
///
/// A response is right if its status is 200, it has one Date, its Content-Length if any is that of
/// the body, each byte of its body is the expected one, and it ends after the request has ended. A
/// stream that is reset, GOAWAY, a push and a stream that nothing has opened are mistakes.
///
/// Lifetime: the bodies of the plan must outlive the session.
class session {
 public:
  explicit session(exchange_plan plan);
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session();

  /// Whether the server's SETTINGS have come: requests may be made.
  bool is_ready() const { return is_ready_; }
  /// The number of streams that the server allows at a time.
  std::uint32_t max_streams() const { return max_streams_; }

  /// Begins a request on a new stream.
  void request();
  /// Begins a request that is not expected to be answered, to prove that the answer is noticed.
  void request_unnoticed();
  /// Begins a POST whose body never comes, so that its stream stays open. Answers are mistakes.
  void hold_stream();
  /// Sends a PING, whose reply comes after the server has read all that was sent before.
  void ping();
  bool has_pong() const { return has_pong_; }

  /// Reads the next bytes. Returns the number of responses that are complete now.
  std::size_t receive(std::string_view data);

  /// The bytes to send next; the caller erases those that it has sent. Bodies that are sent follow
  /// as their windows allow, some at a time.
  std::string& output();
  std::size_t streams() const { return streams_.size(); }
  const std::string& mistake() const { return mistake_; }

 private:
  struct stream {
    bool has_head = false;
    bool is_held = false;
    std::size_t received = 0;  // bytes of the response's body
    std::size_t sent = 0;      // bytes of the request's body
    std::int64_t window = 0;   // bytes of the request's body that may be sent
  };

  struct deflater_end {
    void operator()(nghttp2_hd_deflater* coder) const noexcept;
  };
  struct inflater_end {
    void operator()(nghttp2_hd_inflater* coder) const noexcept;
  };

  void append_frame(unsigned type, unsigned flags, std::uint32_t id, std::string_view payload);
  void append_window_update(std::uint32_t id, std::uint32_t bytes);
  std::string coded_fields();
  std::uint32_t append_request();
  bool append_body(std::uint32_t id, stream& sending);
  void append_bodies();

  bool read_frame_header(std::string_view& data);
  void take_data(std::string_view piece);
  void take_frame();
  void take_fields();
  void check_field(std::string_view name, std::string_view value);
  void take_settings();
  void take_window_update();
  void end_response();
  void fail(std::string_view reason);

  exchange_plan plan_;
  std::unique_ptr<nghttp2_hd_deflater, deflater_end> deflater_;
  std::unique_ptr<nghttp2_hd_inflater, inflater_end> inflater_;
  std::string output_;
  std::string repeated_fields_;  // the coded fields of every request but the first one
  std::uint32_t requests_ = 0;
  std::uint32_t next_id_ = 1;
  std::unordered_map<std::uint32_t, stream> streams_;
  std::vector<std::uint32_t> senders_;  // streams whose request body is incomplete

  bool is_ready_ = false;
  bool has_pong_ = false;
  std::uint32_t max_streams_ = 100;
  std::int64_t initial_window_ = 65'535;
  std::int64_t connection_window_ = 65'535;
  std::size_t frame_bytes_ = 16'384;
  std::uint32_t taken_bytes_ = 0;  // bytes of DATA frames since the last WINDOW_UPDATE

  std::array<char, 9> header_{};
  std::size_t header_size_ = 0;
  bool in_payload_ = false;
  std::size_t left_ = 0;  // bytes of the present frame that have not come
  std::uint32_t id_ = 0;
  unsigned type_ = 0;
  unsigned flags_ = 0;
  std::string payload_;  // the present frame, unless it is DATA without padding
  std::string fields_;   // the bytes of HEADERS and its CONTINUATION frames
  bool ends_with_fields_ = false;
  std::size_t dates_ = 0;
  std::size_t statuses_ = 0;

  std::size_t complete_ = 0;  // responses that the present call of receive() has completed
  std::string mistake_;
};

}  // namespace lab::http2
