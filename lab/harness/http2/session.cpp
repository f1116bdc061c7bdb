// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http2/session.hpp>

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

namespace lab::http2 {
namespace {

enum frame_type : unsigned {
  type_data = 0,
  type_headers = 1,
  type_rst_stream = 3,
  type_settings = 4,
  type_push_promise = 5,
  type_ping = 6,
  type_goaway = 7,
  type_window_update = 8,
  type_continuation = 9,
};

enum frame_flag : unsigned {
  flag_ack = 1,
  flag_end_stream = 1,
  flag_end_headers = 4,
  flag_padded = 8,
  flag_priority = 0x20,
};

enum setting : unsigned {
  setting_header_table_size = 1,
  setting_enable_push = 2,
  setting_max_streams = 3,
  setting_initial_window = 4,
  setting_frame_bytes = 5,
};

constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// The bytes of one response, and of all, that the server may send before a WINDOW_UPDATE.
constexpr std::uint32_t stream_window = 1U << 24U;
constexpr std::uint32_t connection_window = 1U << 30U;
constexpr std::uint32_t first_window = 65'535;
// While the output holds this much, no bodies are added to it.
constexpr std::size_t max_output_bytes = std::size_t{1} << 17;
constexpr std::size_t max_field_bytes = std::size_t{1} << 16;

void append_number(std::string& text, std::uint64_t number, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) text += static_cast<char>((number >> (8 * i)) & 0xFFU);
}

std::uint32_t number_at(std::string_view text, std::size_t begin, std::size_t bytes) {
  std::uint32_t number = 0;
  for (std::size_t i = begin; i < begin + bytes; ++i) {
    number = number << 8U | static_cast<unsigned char>(text[i]);
  }
  return number;
}

nghttp2_nv field(std::string_view name, std::string_view value) {
  // nghttp2 does not change the texts, although its type is not const.
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

void session::deflater_end::operator()(nghttp2_hd_deflater* coder) const noexcept {
  nghttp2_hd_deflate_del(coder);
}

void session::inflater_end::operator()(nghttp2_hd_inflater* coder) const noexcept {
  nghttp2_hd_inflate_del(coder);
}

session::session(exchange_plan plan) : plan_(std::move(plan)) {
  nghttp2_hd_deflater* deflater = nullptr;
  nghttp2_hd_inflater* inflater = nullptr;
  if (nghttp2_hd_deflate_new(&deflater, 4096) != 0) throw std::bad_alloc();
  deflater_.reset(deflater);
  if (nghttp2_hd_inflate_new(&inflater) != 0) throw std::bad_alloc();
  inflater_.reset(inflater);
  output_ = preface;
  std::string settings;
  append_number(settings, setting_enable_push, 2);
  append_number(settings, 0, 4);
  append_number(settings, setting_initial_window, 2);
  append_number(settings, stream_window, 4);
  append_frame(type_settings, 0, 0, settings);
  append_window_update(0, connection_window - first_window);
}

session::~session() = default;

void session::fail(std::string_view reason) {
  if (mistake_.empty()) mistake_ = reason;
}

void session::append_frame(unsigned type, unsigned flags, std::uint32_t id,
                           std::string_view payload) {
  append_number(output_, payload.size(), 3);
  append_number(output_, type, 1);
  append_number(output_, flags, 1);
  append_number(output_, id, 4);
  output_ += payload;
}

void session::append_window_update(std::uint32_t id, std::uint32_t bytes) {
  std::string payload;
  append_number(payload, bytes, 4);
  append_frame(type_window_update, 0, id, payload);
}

std::string session::coded_fields() {
  const std::string length = std::to_string(plan_.sent_body.size());
  std::vector<nghttp2_nv> fields{field(":method", plan_.sent_body.empty() ? "GET" : "POST"),
                                 field(":scheme", "http"),
                                 field(":authority", plan_.authority),
                                 field(":path", plan_.target),
                                 field("user-agent", "gyre-lab"),
                                 field("accept", "*/*")};
  if (!plan_.sent_body.empty()) {
    fields.push_back(field("content-type", "application/octet-stream"));
    fields.push_back(field("content-length", length));
  }
  std::string coded(nghttp2_hd_deflate_bound(deflater_.get(), fields.data(), fields.size()), '\0');
  const ssize_t size =
      nghttp2_hd_deflate_hd(deflater_.get(), reinterpret_cast<std::uint8_t*>(coded.data()),
                            coded.size(), fields.data(), fields.size());
  if (size < 0) throw std::runtime_error(nghttp2_strerror(static_cast<int>(size)));
  coded.resize(static_cast<std::size_t>(size));
  return coded;
}

// The first request adds to the server's table of fields. The second one refers to it, and has the
// bytes of all that follow.
std::uint32_t session::append_request() {
  const std::uint32_t id = std::exchange(next_id_, next_id_ + 2);
  const unsigned flags = flag_end_headers | (plan_.sent_body.empty() ? flag_end_stream : 0U);
  if (requests_ < 2) repeated_fields_ = coded_fields();
  ++requests_;
  append_frame(type_headers, flags, id, repeated_fields_);
  return id;
}

void session::request() {
  const std::uint32_t id = append_request();
  streams_[id].window = initial_window_;
  if (!plan_.sent_body.empty()) senders_.push_back(id);
}

void session::request_unnoticed() {
  const std::uint32_t id = append_request();
  if (!plan_.sent_body.empty()) append_frame(type_data, flag_end_stream, id, plan_.sent_body);
}

void session::hold_stream() {
  const std::uint32_t id = std::exchange(next_id_, next_id_ + 2);
  const nghttp2_nv fields[] = {field(":method", "POST"), field(":scheme", "http"),
                               field(":authority", plan_.authority), field(":path", "/upload")};
  std::array<std::uint8_t, 256> coded{};
  const ssize_t size =
      nghttp2_hd_deflate_hd(deflater_.get(), coded.data(), coded.size(), fields, 4);
  if (size < 0) throw std::runtime_error(nghttp2_strerror(static_cast<int>(size)));
  append_frame(type_headers, flag_end_headers, id,
               {reinterpret_cast<const char*>(coded.data()), static_cast<std::size_t>(size)});
  streams_[id].is_held = true;
}

void session::ping() {
  has_pong_ = false;
  append_frame(type_ping, 0, 0, "gyre-lab");
}

// Appends one frame of a body. Returns false when the stream sends no more for now.
bool session::append_body(std::uint32_t id, stream& sending) {
  const std::size_t rest = plan_.sent_body.size() - sending.sent;
  const std::int64_t window = std::min(sending.window, connection_window_);
  if (window <= 0) return false;
  const std::size_t size = std::min({rest, frame_bytes_, static_cast<std::size_t>(window)});
  append_frame(type_data, size == rest ? flag_end_stream : 0U, id,
               plan_.sent_body.substr(sending.sent, size));
  sending.sent += size;
  sending.window -= static_cast<std::int64_t>(size);
  connection_window_ -= static_cast<std::int64_t>(size);
  return size != rest;
}

// Each stream in turn sends a frame, until there is enough or the windows are closed.
void session::append_bodies() {
  bool has_sent = true;
  while (has_sent && connection_window_ > 0) {
    has_sent = false;
    for (std::size_t i = 0; i < senders_.size() && output_.size() < max_output_bytes;) {
      stream& sending = streams_.at(senders_[i]);
      has_sent = append_body(senders_[i], sending) || has_sent;
      if (sending.sent == plan_.sent_body.size()) {
        senders_.erase(senders_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    if (output_.size() >= max_output_bytes) return;
  }
}

std::string& session::output() {
  if (!senders_.empty() && output_.size() < max_output_bytes / 2) append_bodies();
  return output_;
}

std::size_t session::receive(std::string_view data) {
  complete_ = 0;
  while (!data.empty() && mistake_.empty()) {
    if (!in_payload_ && !read_frame_header(data)) break;
    const std::string_view piece = data.substr(0, std::min(left_, data.size()));
    data.remove_prefix(piece.size());
    left_ -= piece.size();
    if (type_ == type_data && (flags_ & flag_padded) == 0) {
      take_data(piece);
      if (left_ == 0 && (flags_ & flag_end_stream) != 0 && mistake_.empty()) end_response();
    } else {
      payload_ += piece;
      if (left_ == 0) take_frame();
    }
    if (left_ == 0) in_payload_ = false;
  }
  return complete_;
}

// Takes the bytes of a frame's header from `data`. Returns false while it is incomplete or wrong.
bool session::read_frame_header(std::string_view& data) {
  const std::size_t size = std::min(header_.size() - header_size_, data.size());
  std::copy_n(data.data(), size, header_.data() + header_size_);
  data.remove_prefix(size);
  header_size_ += size;
  if (header_size_ < header_.size()) return false;
  const std::string_view header(header_.data(), header_.size());
  header_size_ = 0;
  left_ = number_at(header, 0, 3);
  type_ = number_at(header, 3, 1);
  flags_ = number_at(header, 4, 1);
  id_ = number_at(header, 5, 4) & 0x7FFF'FFFFU;
  payload_.clear();
  in_payload_ = true;
  if (left_ > 16'384) fail("a frame that is too long");
  if (!fields_.empty() && type_ != type_continuation) fail("fields that do not end");
  return mistake_.empty();
}

void session::take_data(std::string_view piece) {
  taken_bytes_ += static_cast<std::uint32_t>(piece.size());
  if (taken_bytes_ > connection_window / 2) {
    append_window_update(0, std::exchange(taken_bytes_, 0));
  }
  const auto found = streams_.find(id_);
  if (found == streams_.end()) return fail("data of a stream that is not open");
  stream& receiving = found->second;
  if (!receiving.has_head) return fail("data before the fields");
  if (plan_.expected_body.substr(std::min(receiving.received, plan_.expected_body.size()),
                                 piece.size()) != piece) {
    return fail("a body that differs");
  }
  receiving.received += piece.size();
}

// Takes a frame that is whole.
void session::take_frame() {
  switch (type_) {
    case type_data: {
      const std::size_t padding = payload_.empty() ? 0 : static_cast<unsigned char>(payload_[0]);
      if (padding + 1 > payload_.size()) return fail("bad padding");
      taken_bytes_ += static_cast<std::uint32_t>(padding + 1);
      take_data(std::string_view(payload_).substr(1, payload_.size() - 1 - padding));
      if ((flags_ & flag_end_stream) != 0 && mistake_.empty()) end_response();
      return;
    }
    case type_headers:
      ends_with_fields_ = (flags_ & flag_end_stream) != 0;
      if ((flags_ & (flag_padded | flag_priority)) != 0) {
        return fail("fields with padding or a priority, which the lab does not read");
      }
      [[fallthrough]];
    case type_continuation:
      fields_ += payload_;
      if (fields_.size() > max_field_bytes) return fail("fields of 64 KiB");
      if ((flags_ & flag_end_headers) != 0) take_fields();
      return;
    case type_settings: return take_settings();
    case type_window_update: return take_window_update();
    case type_ping:
      if ((flags_ & flag_ack) == 0) return append_frame(type_ping, flag_ack, 0, payload_);
      has_pong_ = true;
      return;
    case type_rst_stream:
      // A server may reset a stream that it has answered, as it reads no more of it.
      if (streams_.contains(id_)) fail("a stream that is reset");
      return;
    case type_push_promise: return fail("a push");
    case type_goaway: return fail("GOAWAY");
    default: return;
  }
}

void session::check_field(std::string_view name, std::string_view value) {
  if (name == ":status") {
    ++statuses_;
    if (value != "200") fail("the status " + std::string(value));
  } else if (name == "date") {
    ++dates_;
  } else if (name == "content-length" && value != std::to_string(plan_.expected_body.size())) {
    fail("a Content-Length that differs");
  }
}

void session::take_fields() {
  statuses_ = dates_ = 0;
  std::string_view rest = fields_;
  for (;;) {
    nghttp2_nv found{};
    int inflated = 0;
    const ssize_t used =
        nghttp2_hd_inflate_hd2(inflater_.get(), &found, &inflated,
                               reinterpret_cast<const std::uint8_t*>(rest.data()), rest.size(), 1);
    if (used < 0) return fail("fields that cannot be decoded");
    rest.remove_prefix(static_cast<std::size_t>(used));
    const auto inflate_flags = static_cast<unsigned>(inflated);
    if ((inflate_flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      check_field({reinterpret_cast<const char*>(found.name), found.namelen},
                  {reinterpret_cast<const char*>(found.value), found.valuelen});
    }
    if ((inflate_flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    if (rest.empty() && (inflate_flags & NGHTTP2_HD_INFLATE_EMIT) == 0) break;
  }
  nghttp2_hd_inflate_end_headers(inflater_.get());
  fields_.clear();
  const auto found = streams_.find(id_);
  if (found == streams_.end()) return fail("fields of a stream that is not open");
  if (found->second.is_held) return fail("a response to a request that is incomplete");
  if (found->second.has_head) return fail("trailers");
  if (statuses_ != 1 || dates_ != 1) return fail("not one status and one Date");
  found->second.has_head = true;
  if (ends_with_fields_ && mistake_.empty()) end_response();
}

void session::take_settings() {
  if ((flags_ & flag_ack) != 0) return;
  for (std::size_t begin = 0; begin + 6 <= payload_.size(); begin += 6) {
    const std::uint32_t value = number_at(payload_, begin + 2, 4);
    switch (number_at(payload_, begin, 2)) {
      case setting_header_table_size:
        nghttp2_hd_deflate_change_table_size(deflater_.get(), value);
        requests_ = 0;  // the fields of the next requests are coded for the new table
        break;
      case setting_max_streams: max_streams_ = value; break;
      case setting_initial_window:
        for (auto& [id, each] : streams_) each.window += std::int64_t{value} - initial_window_;
        initial_window_ = value;
        break;
      case setting_frame_bytes: frame_bytes_ = std::min<std::size_t>(value, 16'384); break;
      default: break;
    }
  }
  append_frame(type_settings, flag_ack, 0, {});
  is_ready_ = true;
}

void session::take_window_update() {
  if (payload_.size() != 4) return fail("a bad WINDOW_UPDATE");
  const std::int64_t more = number_at(payload_, 0, 4) & 0x7FFF'FFFFU;
  if (id_ == 0) {
    connection_window_ += more;
  } else if (const auto found = streams_.find(id_); found != streams_.end()) {
    found->second.window += more;
  }
}

void session::end_response() {
  const auto found = streams_.find(id_);
  const stream& ended = found->second;
  if (ended.received != plan_.expected_body.size()) return fail("a body that is too short");
  if (ended.sent != plan_.sent_body.size()) return fail("a response before the request has ended");
  streams_.erase(found);
  ++complete_;
}

}  // namespace lab::http2
