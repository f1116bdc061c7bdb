// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_session.hpp>

#include <gyre/base/detail/system_random.hpp>
#include <gyre/http/detail/spare_buffers.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

namespace gyre::http::detail {
namespace {

constexpr std::uint8_t rsv1 = 4;  // marks a compressed message
constexpr std::size_t max_frame_output = std::size_t{64} << 10;
constexpr std::size_t unlimited_size = std::numeric_limits<std::size_t>::max();
constexpr std::size_t max_reason = websocket_header::max_control - 2;

constexpr bool is_known(websocket_opcode opcode) noexcept {
  const auto number = static_cast<unsigned>(opcode);
  return number <= 2 || (number >= 8 && number <= 10);
}

constexpr websocket_opcode opcode_of(websocket_kind kind) noexcept {
  return kind == websocket_kind::text ? websocket_opcode::text : websocket_opcode::binary;
}

// Copies bytes of the payload of a frame, whose first byte is at `position` of it. Masks or unmasks
// them if the frame is masked.
void copy_bytes(const websocket_header& header, std::uint64_t position,
                std::span<const std::byte> source, std::byte* target) noexcept {
  if (header.is_masked) {
    copy_masked(source, target, header.mask, position);
  } else if (!source.empty()) {
    std::memcpy(target, source.data(), source.size());
  }
}

}  // namespace

websocket_session::websocket_session(websocket_role role, const websocket_limits& limits,
                                     const websocket_compression& compression,
                                     const std::optional<deflate_agreement>& deflate)
    : max_message_(limits.message),
      max_frame_(limits.frame),
      packing_(deflate ? new packing{.options = compression, .agreement = *deflate} : nullptr),
      role_(role) {
  if (role == websocket_role::client) masks_ = std::make_unique<mask_supply>();
}

websocket_session::~websocket_session() { drop_message(); }

websocket_session::control_frames& websocket_session::control() {
  if (control_ == nullptr) control_ = std::make_unique<control_frames>();
  return *control_;
}

// Drops the bytes of message_, and leaves its memory to the other sockets of the thread.
void websocket_session::drop_message() noexcept {
  keep_spare_buffer(message_);
  checked_ = 0;
}

// Frees the memory of control frames if none comes or waits to be sent.
void websocket_session::trim_control() noexcept {
  const bool comes = state_ == state::payload && is_control(header_.opcode);
  if (!comes && !has_control_output() && !received_close_) control_.reset();
}

// --- Receiving ---

websocket_session::event websocket_session::next(std::span<const std::byte>& input,
                                                 receiving mode) {
  if (error_ != websocket_errc{} || received_close_) {
    input = {};
    return received_close_ ? event::closed : event::failed;
  }
  if (std::exchange(is_delivered_, false)) {
    message_.clear();
    checked_ = 0;
  }
  for (;;) {
    if (state_ == state::header) {
      if (!take_header(input)) break;
      if (const websocket_errc fault = check_header(mode); fault != websocket_errc{}) {
        return fail(fault);
      }
      begin_frame();
    }
    const auto result = is_control(header_.opcode) ? take_control(input) : take_data(input, mode);
    if (result) return *result;
    if (state_ == state::payload) break;
  }
  if (message_.empty()) {
    drop_message();
    return event::wants_input;
  }
  return mode == receiving::pieces ? deliver(false) : event::wants_input;
}

websocket_session::event websocket_session::deliver(bool is_last) noexcept {
  is_delivered_ = true;
  is_last_ = is_last;
  if (is_last) has_message_ = false;
  return event::message;
}

websocket_session::event websocket_session::fail(websocket_errc reason) {
  error_ = reason;
  drop_message();
  if (packing_ != nullptr) packing_->inflater.reset();
  send_close(close_code_of(reason), make_error_code(reason).message());
  return event::failed;
}

// Reads a header into header_. Returns false if bytes of it are missing.
bool websocket_session::take_header(std::span<const std::byte>& input) {
  constexpr std::size_t fixed_size = 2;
  std::size_t size = fixed_size;
  if (header_size_ == 0 && input.size() >= fixed_size) {
    size = websocket_header::size_of(input[0], input[1]);
    if (input.size() >= size) [[likely]] {
      header_ = websocket_header::read(input.data());
      input = input.subspan(size);
      return true;
    }
  }
  while (!input.empty()) {
    header_bytes_[header_size_++] = input.front();
    input = input.subspan(1);
    if (header_size_ < fixed_size) continue;
    if (header_size_ < websocket_header::size_of(header_bytes_[0], header_bytes_[1])) continue;
    header_ = websocket_header::read(header_bytes_.data());
    header_size_ = 0;
    return true;
  }
  return false;
}

websocket_errc websocket_session::check_header(receiving mode) const noexcept {
  const websocket_opcode opcode = header_.opcode;
  const bool begins_message =
      opcode == websocket_opcode::text || opcode == websocket_opcode::binary;
  const bool may_be_packed = packing_ != nullptr && begins_message;
  if ((header_.reserved & ~(may_be_packed ? rsv1 : 0)) != 0 || !is_known(opcode) ||
      header_.is_masked != (role_ == websocket_role::server) || !header_.has_valid_length) {
    return websocket_errc::bad_frame;
  }
  if (is_control(opcode)) {
    const bool is_valid = header_.is_final && header_.length <= websocket_header::max_control;
    return is_valid ? websocket_errc{} : websocket_errc::bad_frame;
  }
  if (begins_message == has_message_) return websocket_errc::bad_frame;
  if (header_.length > max_frame_) return websocket_errc::too_large;
  const bool is_packed = begins_message ? header_.reserved != 0 : is_packed_;
  const bool is_too_large =
      mode == receiving::messages && !is_packed &&
      (message_.size() > max_message_ || header_.length > max_message_ - message_.size());
  return is_too_large ? websocket_errc::too_large : websocket_errc{};
}

void websocket_session::begin_frame() {
  position_ = 0;
  state_ = state::payload;
  if (is_control(header_.opcode) || header_.opcode == websocket_opcode::continuation) return;
  has_message_ = true;
  has_end_ = false;
  kind_ = header_.opcode == websocket_opcode::text ? websocket_kind::text : websocket_kind::binary;
  is_packed_ = header_.reserved != 0;
  text_.reset();
  if (is_packed_ && packing_->inflater == nullptr) {
    packing_->inflater = std::make_unique<message_inflater>(packing_->agreement.peer_window_bits);
  }
}

// Moves bytes of the payload to `target`, unmasked. `target` must not be longer than the input.
void websocket_session::copy_payload(std::span<const std::byte>& input,
                                     std::span<std::byte> target) noexcept {
  copy_bytes(header_, position_, input.first(target.size()), target.data());
  position_ += target.size();
  input = input.subspan(target.size());
}

// Checks the bytes of a text that were not checked yet.
bool websocket_session::check_text() noexcept {
  if (kind_ != websocket_kind::text) return true;
  const std::span<const std::byte> unchecked = message_.bytes().subspan(checked_);
  checked_ = message_.size();
  return text_.feed(unchecked);
}

std::optional<websocket_session::event> websocket_session::take_data(
    std::span<const std::byte>& input, receiving mode) {
  if (is_packed_) return take_packed(input, mode);
  std::uint64_t count = std::min<std::uint64_t>(header_.length - position_, input.size());
  if (mode == receiving::pieces) {
    count = std::min<std::uint64_t>(count, max_piece - std::min(max_piece, message_.size()));
  }
  // The program may have changed the mode within a frame.
  if (mode == receiving::messages &&
      count > max_message_ - std::min(max_message_, message_.size())) {
    return fail(websocket_errc::too_large);
  }
  if (count != 0) {
    const auto size = static_cast<std::size_t>(count);
    take_spare_buffer(message_);
    copy_payload(input, message_.prepare(size));
    message_.commit(size);
    if (!check_text()) return fail(websocket_errc::bad_utf8);
  }
  if (position_ == header_.length) return end_frame();
  if (mode == receiving::pieces && message_.size() >= max_piece) return deliver(false);
  return std::nullopt;
}

std::optional<websocket_session::event> websocket_session::take_packed(
    std::span<const std::byte>& input, receiving mode) {
  const std::size_t max_size =
      mode == receiving::pieces ? max_piece : std::min(max_message_, unlimited_size - 1) + 1;
  message_inflater& inflater = *packing_->inflater;
  take_spare_buffer(message_);
  for (;;) {
    const message_inflater::status result = inflater.step(message_, max_size);
    if (!check_text()) return fail(websocket_errc::bad_utf8);
    if (result == message_inflater::status::failed) return fail(websocket_errc::bad_compression);
    if (mode == receiving::messages && message_.size() > max_message_) {
      return fail(websocket_errc::too_large);
    }
    if (result == message_inflater::status::is_full) return deliver(false);
    if (position_ == header_.length) {
      if (header_.is_final && !std::exchange(has_end_, true)) {
        inflater.end_message();
        continue;
      }
      if (header_.is_final && !inflater.is_at_end()) return fail(websocket_errc::bad_compression);
      if (header_.is_final && !packing_->agreement.keeps_peer_context) inflater.reset();
      return end_frame();
    }
    if (input.empty()) return std::nullopt;
    const std::span<std::byte> room = inflater.prepare();
    const std::size_t count =
        std::min({room.size(), input.size(), static_cast<std::size_t>(header_.length - position_)});
    copy_payload(input, room.first(count));
    inflater.commit(count);
  }
}

std::optional<websocket_session::event> websocket_session::end_frame() {
  state_ = state::header;
  if (!header_.is_final) return std::nullopt;
  if (kind_ == websocket_kind::text && !text_.is_complete()) return fail(websocket_errc::bad_utf8);
  return deliver(true);
}

std::optional<websocket_session::event> websocket_session::take_control(
    std::span<const std::byte>& input) {
  const auto received = static_cast<std::size_t>(position_);
  const std::size_t count =
      std::min(static_cast<std::size_t>(header_.length) - received, input.size());
  copy_payload(input, std::span(control().payload).subspan(received, count));
  return position_ == header_.length ? end_control() : std::nullopt;
}

std::optional<websocket_session::event> websocket_session::end_control() {
  state_ = state::header;
  if (header_.opcode == websocket_opcode::close) return end_close();
  // Nothing may follow this side's Close frame.
  if (header_.opcode != websocket_opcode::ping || has_sent_close_) {
    trim_control();
    return std::nullopt;
  }
  const auto payload = std::span(control_->payload).first(static_cast<std::size_t>(header_.length));
  io::buffer& output = control_->output;
  if (output.size() + websocket_header::max_size + payload.size() <= max_control_output) {
    append_control_frame(websocket_opcode::pong, payload, output);
  } else {
    // A reply to the newest of many pings is enough (RFC 6455, 5.5.3).
    control_->late_pong.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    control_->has_late_pong = true;
  }
  return std::nullopt;
}

std::optional<websocket_session::event> websocket_session::end_close() {
  const auto payload = std::span(control_->payload).first(static_cast<std::size_t>(header_.length));
  close_code code = close_code::none;
  if (!payload.empty()) {
    if (payload.size() == 1) return fail(websocket_errc::bad_close);
    code = static_cast<close_code>(load_be<std::uint16_t>(payload.data()));
    if (!may_be_sent(code)) return fail(websocket_errc::bad_close);
    const auto reason = payload.subspan(2);
    if (!is_utf8(reason)) return fail(websocket_errc::bad_utf8);
    control_->received_reason.assign(reinterpret_cast<const char*>(reason.data()), reason.size());
  }
  received_close_ = code;
  send_close(code, {});
  drop_message();
  return event::closed;
}

// --- Sending ---

websocket_mask websocket_session::next_mask() {
  if (masks_->used == masks_->bytes.size()) {
    gyre::detail::require_random(masks_->bytes, "http::websocket: random numbers");
    masks_->used = 0;
  }
  websocket_mask mask;
  std::copy_n(masks_->bytes.begin() + static_cast<std::ptrdiff_t>(masks_->used), mask.size(),
              mask.begin());
  masks_->used += mask.size();
  return mask;
}

// Gives a frame its mask if a client sends it.
void websocket_session::set_mask(websocket_header& header) {
  header.is_masked = role_ == websocket_role::client;
  if (header.is_masked) header.mask = next_mask();
}

void websocket_session::append_frame(websocket_header header, std::span<const std::byte> payload,
                                     io::buffer& output) {
  set_mask(header);
  std::array<std::byte, websocket_header::max_size> head;
  const std::size_t head_size = header.write(head);
  const std::span<std::byte> room = output.prepare(head_size + payload.size());
  std::copy_n(head.begin(), head_size, room.begin());
  copy_bytes(header, 0, payload, room.data() + head_size);
  output.commit(room.size());
}

void websocket_session::append_control_frame(websocket_opcode opcode,
                                             std::span<const std::byte> payload,
                                             io::buffer& output) {
  append_frame({.opcode = opcode, .length = payload.size()}, payload, output);
}

void websocket_session::send_ping() {
  if (!has_sent_close_) append_control_frame(websocket_opcode::ping, {}, control().output);
}

void websocket_session::send_close(close_code code, std::string_view reason) {
  if (std::exchange(has_sent_close_, true)) return;
  std::array<std::byte, websocket_header::max_control> payload;
  std::size_t size = 0;
  if (code != close_code::none) {
    store_be(payload.data(), static_cast<std::uint16_t>(code));
    reason = reason.substr(0, max_reason);
    std::ranges::copy(std::as_bytes(std::span(reason)), payload.begin() + 2);
    size = 2 + reason.size();
  }
  control_frames& frames = control();
  if (std::exchange(frames.has_late_pong, false)) {
    append_control_frame(websocket_opcode::pong, std::as_bytes(std::span(frames.late_pong)),
                         frames.output);
  }
  append_control_frame(websocket_opcode::close, std::span(payload).first(size), frames.output);
}

void websocket_session::append_control(io::buffer& output) {
  if (control_ == nullptr) return;
  output.append(control_->output.bytes());
  control_->output = io::buffer({.prepend = 0});
  if (std::exchange(control_->has_late_pong, false)) {
    append_control_frame(websocket_opcode::pong, std::as_bytes(std::span(control_->late_pong)),
                         output);
  }
  trim_control();
}

void websocket_session::append_header(websocket_kind kind, std::size_t size, io::buffer& output) {
  websocket_header header{.opcode = opcode_of(kind), .length = size};
  append_header(header, output);
}

void websocket_session::append_header(websocket_header& header, io::buffer& output) {
  set_mask(header);
  std::array<std::byte, websocket_header::max_size> head;
  output.append(std::span<const std::byte>(head).first(header.write(head)));
}

void websocket_session::begin_message(websocket_kind kind, std::size_t size) {
  sending_ = {.opcode = opcode_of(kind)};
  packs_ = packing_ != nullptr && size != 0 && size >= packing_->options.min_size;
  is_first_ = true;
  sent_ = 0;
}

bool websocket_session::append_data(std::span<const std::byte>& rest, io::buffer& output) {
  return packs_ ? append_packed(rest, output) : append_plain(rest, output);
}

// Appends one frame. A frame's length is known only when it is compressed, so that a long message
// needs several frames.
bool websocket_session::append_packed(std::span<const std::byte>& rest, io::buffer& output) {
  std::unique_ptr<message_deflater>& deflater = packing_->deflater;
  if (deflater == nullptr) {
    deflater = std::make_unique<message_deflater>(packing_->options.level,
                                                  packing_->agreement.window_bits);
  }
  const std::size_t begin = output.size();
  static_cast<void>(output.prepare(websocket_header::max_size));
  output.commit(websocket_header::max_size);
  const std::size_t expected = rest.size() + rest.size() / 64 + 64;
  const bool is_complete = deflater->step(rest, output, std::min(expected, max_frame_output));
  sending_.is_final = is_complete;
  sending_.reserved = is_first_ ? rsv1 : 0;
  sending_.length = output.size() - begin - websocket_header::max_size;
  set_mask(sending_);
  std::array<std::byte, websocket_header::max_size> head;
  const std::size_t head_size = sending_.write(head);
  const std::span<std::byte> frame = output.mutable_bytes().subspan(begin);
  const auto length = static_cast<std::size_t>(sending_.length);
  std::memmove(frame.data() + head_size, frame.data() + head.size(), length);
  std::copy_n(head.begin(), head_size, frame.begin());
  output.drop_last(head.size() - head_size);
  if (sending_.is_masked) {
    const std::span<std::byte> payload = frame.subspan(head_size, length);
    copy_masked(payload, payload.data(), sending_.mask, 0);
  }
  sending_.opcode = websocket_opcode::continuation;
  is_first_ = false;
  if (is_complete && !packing_->agreement.keeps_context) deflater->reset();
  return is_complete;
}

// Appends a part of the message's only frame, with its header before the first part.
bool websocket_session::append_plain(std::span<const std::byte>& rest, io::buffer& output) {
  const std::span<const std::byte> part = rest.first(std::min(rest.size(), max_frame_output));
  if (std::exchange(is_first_, false)) {
    sending_.length = rest.size();
    if (rest.size() == part.size()) {
      append_frame(sending_, part, output);
      rest = {};
      return true;
    }
    append_header(sending_, output);
  }
  const std::span<std::byte> room = output.prepare(part.size());
  copy_bytes(sending_, sent_, part, room.data());
  output.commit(part.size());
  sent_ += part.size();
  rest = rest.subspan(part.size());
  return rest.empty();
}

std::optional<unsigned> websocket_session::shared_window_bits() const noexcept {
  if (packing_ == nullptr || packing_->agreement.keeps_context) return std::nullopt;
  return packing_->agreement.window_bits;
}

void websocket_session::release_memory() noexcept {
  if (is_within_message() || packing_ == nullptr) return;
  if (!packing_->agreement.keeps_peer_context) packing_->inflater.reset();
  if (!packing_->agreement.keeps_context) packing_->deflater.reset();
}

}  // namespace gyre::http::detail
