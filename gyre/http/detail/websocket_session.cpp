// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_session.hpp>

#include <gyre/base/detail/system_random.hpp>
#include <gyre/http/detail/encoded_message.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace gyre::http::detail {
namespace {

constexpr std::uint8_t rsv1 = 4;  // marks a compressed message
constexpr std::size_t max_frame_output = std::size_t{64} << 10;
constexpr std::size_t max_spare_size = std::size_t{128} << 10;
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

void check_close(close_code code, std::string_view reason) {
  if (!may_be_sent(code)) {
    throw std::invalid_argument("http::websocket::close: a code that must not be sent");
  }
  if (reason.size() > max_reason || !is_utf8(std::as_bytes(std::span(reason)))) {
    throw std::invalid_argument(
        "http::websocket::close: the reason must be UTF-8 of at most 123 bytes");
  }
}

// Objects of the thread that no socket needs now. A socket takes one only while it needs it: most
// sockets are idle, and most messages arrive whole.
template <class T>
class websocket_session::spare {
 public:
  // Returns a spare object for which `fits` returns true, or a new one of `arguments`.
  template <class Fits, class... Arguments>
  static std::unique_ptr<T> take(Fits fits, Arguments... arguments) {
    list& spares = of_thread();
    for (std::size_t i = spares.count; i > 0; --i) {
      std::unique_ptr<T>& object = spares.objects[i - 1];
      if (!fits(*object)) continue;
      std::swap(object, spares.objects[--spares.count]);
      return std::move(spares.objects[spares.count]);
    }
    return std::make_unique<T>(arguments...);
  }
  // Keeps an object for the next socket. The oldest makes room for it.
  static void keep(std::unique_ptr<T> object) noexcept {
    list& spares = of_thread();
    if (spares.count == spares.objects.size()) {
      std::ranges::rotate(spares.objects, spares.objects.begin() + 1);
      --spares.count;
    }
    spares.objects[spares.count++] = std::move(object);
  }

 private:
  // For a message that a program still reads, and for the next one.
  struct list {
    std::array<std::unique_ptr<T>, 2> objects;
    std::size_t count = 0;
  };

  // Not inlined into a coroutine, which may continue on another thread.
  [[gnu::noinline]] static list& of_thread() noexcept {
    static thread_local list spares;
    return spares;
  }
};

websocket_session::websocket_session(websocket_role role, settings_pointer settings,
                                     const websocket_compression& compression,
                                     websocket_agreement agreement)
    : settings_(std::move(settings)), role_(role) {
  if (!agreement.subprotocol.empty()) extras().subprotocol = std::move(agreement.subprotocol);
  if (agreement.deflate) {
    extras().packing.emplace(
        packing_state{.options = compression, .agreement = *agreement.deflate});
  }
  if (role == websocket_role::client) extras().masks = mask_supply();
}

websocket_session::~websocket_session() { drop_message(); }

websocket_session::extra_state& websocket_session::extras() {
  if (extras_ == nullptr) extras_ = std::make_unique<extra_state>();
  return *extras_;
}

websocket_session::control_frames& websocket_session::make_control() {
  std::unique_ptr<control_frames>& frames = extras().control;
  if (frames == nullptr) frames = std::make_unique<control_frames>();
  return *frames;
}

// Drops what has come of a frame or a message, and leaves the memory to the other sockets of the
// thread.
void websocket_session::drop_message() noexcept {
  if (incoming_ == nullptr) return;
  std::unique_ptr<incoming> used = std::move(incoming_);
  if (used->message.capacity() > max_spare_size) return;
  used->message.clear();
  used->checked = 0;
  used->header_size = 0;
  used->state = state::header;
  used->has_message = used->is_delivered = false;
  spare<incoming>::keep(std::move(used));
}

// Frees the memory of control frames if none comes or waits to be sent.
void websocket_session::trim_control() noexcept {
  const bool comes = incoming_ != nullptr && incoming_->state == state::payload &&
                     is_control(incoming_->header.opcode);
  if (comes || has_control_output() || has_received_close() || control() == nullptr) return;
  extras_->control.reset();
  const bool is_empty =
      extras_->subprotocol.empty() && !extras_->packing && !extras_->masks && !extras_->sending;
  if (is_empty) extras_.reset();
}

// --- Receiving ---

websocket_session::event websocket_session::next(std::span<const std::byte>& input,
                                                 receiving mode) {
  if (error_ != 0 || has_received_close()) {
    input = {};
    return has_received_close() ? event::closed : event::failed;
  }
  if (incoming_ == nullptr) {
    if (input.empty()) return event::wants_input;
    incoming_ = spare<incoming>::take([](const incoming&) { return true; });
  } else if (std::exchange(incoming_->is_delivered, false)) {
    incoming_->message.clear();
    incoming_->checked = 0;
    if (input.empty() && !incoming_->has_message && incoming_->state == state::header) {
      drop_message();
      return event::wants_input;
    }
  }
  for (;;) {
    if (incoming_->state == state::header) {
      websocket_header header;
      if (!take_header(input, header)) break;
      if (const websocket_errc fault = check_header(header, mode); fault != websocket_errc{}) {
        return fail(fault);
      }
      if (take_whole_message(header, input)) return deliver(true);
      begin_frame(header);
    }
    const auto result =
        is_control(incoming_->header.opcode) ? take_control(input) : take_data(input, mode);
    if (result) return *result;
    if (incoming_->state == state::payload) break;
  }
  if (!is_within_message()) {
    drop_message();
    return event::wants_input;
  }
  if (incoming_->message.empty()) return event::wants_input;
  return mode == receiving::pieces ? deliver(false) : event::wants_input;
}

websocket_session::event websocket_session::deliver(bool is_last) noexcept {
  incoming_->is_delivered = true;
  incoming_->is_last = is_last;
  if (is_last) incoming_->has_message = false;
  return event::message;
}

websocket_session::event websocket_session::fail(websocket_errc reason) {
  error_ = static_cast<std::uint8_t>(reason);
  drop_message();
  if (packing() != nullptr) packing()->inflater.reset();
  send_close(close_code_of(reason), make_error_code(reason).message());
  return event::failed;
}

// Reads the next header. Returns false if bytes of it are missing.
inline bool websocket_session::take_header(std::span<const std::byte>& input,
                                           websocket_header& header) {
  constexpr std::size_t fixed_size = 2;
  if (incoming_->header_size == 0 && input.size() >= fixed_size) {
    const std::size_t size = websocket_header::size_of(input[0], input[1]);
    if (input.size() >= size) [[likely]] {
      header.read(input.data());
      input = input.subspan(size);
      return true;
    }
  }
  return collect_header(input, header);
}

// Keeps the bytes of a header that comes in parts.
bool websocket_session::collect_header(std::span<const std::byte>& input,
                                       websocket_header& header) {
  auto& bytes = incoming_->header_bytes;
  std::uint8_t& size = incoming_->header_size;
  while (!input.empty()) {
    bytes[size++] = input.front();
    input = input.subspan(1);
    if (size < 2 || size < websocket_header::size_of(bytes[0], bytes[1])) continue;
    size = 0;
    header.read(bytes.data());
    return true;
  }
  return false;
}

inline websocket_errc websocket_session::check_header(const websocket_header& header,
                                                      receiving mode) const noexcept {
  const websocket_opcode opcode = header.opcode;
  const bool begins_message =
      opcode == websocket_opcode::text || opcode == websocket_opcode::binary;
  const bool may_be_packed = packing() != nullptr && begins_message;
  if ((header.reserved & ~(may_be_packed ? rsv1 : 0)) != 0 || !is_known(opcode) ||
      header.is_masked != (role_ == websocket_role::server) || !header.has_valid_length) {
    return websocket_errc::bad_frame;
  }
  if (is_control(opcode)) {
    const bool is_valid = header.is_final && header.length <= websocket_header::max_control;
    return is_valid ? websocket_errc{} : websocket_errc::bad_frame;
  }
  if (begins_message == incoming_->has_message) return websocket_errc::bad_frame;
  if (header.length > settings_->limits.frame) return websocket_errc::too_large;
  const bool is_packed = begins_message ? header.reserved != 0 : incoming_->is_packed;
  const bool is_too_large = mode == receiving::messages && !is_packed &&
                            (incoming_->message.size() > max_message() ||
                             header.length > max_message() - incoming_->message.size());
  return is_too_large ? websocket_errc::too_large : websocket_errc{};
}

// Takes a message in one frame that has come whole, as most do. Takes nothing of another one.
inline bool websocket_session::take_whole_message(const websocket_header& header,
                                                  std::span<const std::byte>& input) {
  const bool is_text = header.opcode == websocket_opcode::text;
  const bool is_message = is_text || header.opcode == websocket_opcode::binary;
  if (!is_message || !header.is_final || header.reserved != 0 || header.length > input.size() ||
      header.length > max_piece) {
    return false;
  }
  const auto length = static_cast<std::size_t>(header.length);
  const std::span<std::byte> payload = incoming_->message.prepare(length).first(length);
  copy_bytes(header, 0, input.first(length), payload.data());
  if (is_text && !is_utf8(payload)) return false;
  incoming_->message.commit(length);
  incoming_->kind = is_text ? websocket_kind::text : websocket_kind::binary;
  input = input.subspan(length);
  return true;
}

void websocket_session::begin_frame(const websocket_header& header) {
  incoming_->header = header;
  incoming_->position = 0;
  incoming_->state = state::payload;
  if (is_control(header.opcode) || header.opcode == websocket_opcode::continuation) return;
  incoming_->has_message = true;
  incoming_->has_end = false;
  incoming_->kind =
      header.opcode == websocket_opcode::text ? websocket_kind::text : websocket_kind::binary;
  incoming_->is_packed = header.reserved != 0;
  incoming_->text.reset();
  if (incoming_->is_packed && packing()->inflater == nullptr) {
    const unsigned window_bits = packing()->agreement.peer_window_bits;
    packing()->inflater = spare<message_inflater>::take(
        [&](const message_inflater& object) { return object.window_bits() == window_bits; },
        window_bits);
  }
}

// Moves bytes of the payload to `target`, unmasked. `target` must not be longer than the input.
void websocket_session::copy_payload(std::span<const std::byte>& input,
                                     std::span<std::byte> target) noexcept {
  copy_bytes(incoming_->header, incoming_->position, input.first(target.size()), target.data());
  incoming_->position += target.size();
  input = input.subspan(target.size());
}

// Checks the bytes of a text that were not checked yet.
bool websocket_session::check_text() noexcept {
  if (incoming_->kind != websocket_kind::text) return true;
  const std::span<const std::byte> unchecked =
      incoming_->message.bytes().subspan(incoming_->checked);
  incoming_->checked = incoming_->message.size();
  return incoming_->text.feed(unchecked);
}

std::optional<websocket_session::event> websocket_session::take_data(
    std::span<const std::byte>& input, receiving mode) {
  if (incoming_->is_packed) return take_packed(input, mode);
  std::uint64_t count =
      std::min<std::uint64_t>(incoming_->header.length - incoming_->position, input.size());
  if (mode == receiving::pieces) {
    count =
        std::min<std::uint64_t>(count, max_piece - std::min(max_piece, incoming_->message.size()));
  }
  // The program may have changed the mode within a frame.
  if (mode == receiving::messages &&
      count > max_message() - std::min(max_message(), incoming_->message.size())) {
    return fail(websocket_errc::too_large);
  }
  if (count != 0) {
    const auto size = static_cast<std::size_t>(count);
    copy_payload(input, incoming_->message.prepare(size));
    incoming_->message.commit(size);
    if (!check_text()) return fail(websocket_errc::bad_utf8);
  }
  if (incoming_->position == incoming_->header.length) return end_frame();
  if (mode == receiving::pieces && incoming_->message.size() >= max_piece) return deliver(false);
  return std::nullopt;
}

std::optional<websocket_session::event> websocket_session::take_packed(
    std::span<const std::byte>& input, receiving mode) {
  const std::size_t max_size =
      mode == receiving::pieces ? max_piece : std::min(max_message(), unlimited_size - 1) + 1;
  message_inflater& inflater = *packing()->inflater;
  for (;;) {
    const message_inflater::status result = inflater.step(incoming_->message, max_size);
    if (!check_text()) return fail(websocket_errc::bad_utf8);
    if (result == message_inflater::status::failed) return fail(websocket_errc::bad_compression);
    if (mode == receiving::messages && incoming_->message.size() > max_message()) {
      return fail(websocket_errc::too_large);
    }
    if (result == message_inflater::status::is_full) return deliver(false);
    if (incoming_->position == incoming_->header.length) {
      if (incoming_->header.is_final && !std::exchange(incoming_->has_end, true)) {
        inflater.end_message();
        continue;
      }
      if (incoming_->header.is_final && !inflater.is_at_end())
        return fail(websocket_errc::bad_compression);
      if (incoming_->header.is_final && !packing()->agreement.keeps_peer_context) {
        inflater.reset();
        spare<message_inflater>::keep(std::move(packing()->inflater));
      }
      return end_frame();
    }
    if (input.empty()) return std::nullopt;
    const std::span<std::byte> room = inflater.prepare();
    const std::size_t count =
        std::min({room.size(), input.size(),
                  static_cast<std::size_t>(incoming_->header.length - incoming_->position)});
    copy_payload(input, room.first(count));
    inflater.commit(count);
  }
}

std::optional<websocket_session::event> websocket_session::end_frame() {
  incoming_->state = state::header;
  if (!incoming_->header.is_final) return std::nullopt;
  if (incoming_->kind == websocket_kind::text && !incoming_->text.is_complete())
    return fail(websocket_errc::bad_utf8);
  return deliver(true);
}

std::optional<websocket_session::event> websocket_session::take_control(
    std::span<const std::byte>& input) {
  const auto received = static_cast<std::size_t>(incoming_->position);
  const std::size_t count =
      std::min(static_cast<std::size_t>(incoming_->header.length) - received, input.size());
  copy_payload(input, std::span(make_control().payload).subspan(received, count));
  return incoming_->position == incoming_->header.length ? end_control() : std::nullopt;
}

std::optional<websocket_session::event> websocket_session::end_control() {
  incoming_->state = state::header;
  if (incoming_->header.opcode == websocket_opcode::close) return end_close();
  // Nothing may follow this side's Close frame.
  if (incoming_->header.opcode != websocket_opcode::ping || has_sent_close_) {
    trim_control();
    return std::nullopt;
  }
  control_frames& frames = *control();
  const auto payload =
      std::span(frames.payload).first(static_cast<std::size_t>(incoming_->header.length));
  io::buffer& output = frames.output;
  if (output.size() + websocket_header::max_size + payload.size() <= max_control_output) {
    append_control_frame(websocket_opcode::pong, payload, output);
  } else {
    // A reply to the newest of many pings is enough (RFC 6455, 5.5.3).
    frames.late_pong.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    frames.has_late_pong = true;
  }
  return std::nullopt;
}

std::optional<websocket_session::event> websocket_session::end_close() {
  control_frames& frames = *control();
  const auto payload =
      std::span(frames.payload).first(static_cast<std::size_t>(incoming_->header.length));
  close_code code = close_code::none;
  if (!payload.empty()) {
    if (payload.size() == 1) return fail(websocket_errc::bad_close);
    code = static_cast<close_code>(load_be<std::uint16_t>(payload.data()));
    if (!may_be_sent(code)) return fail(websocket_errc::bad_close);
    const auto reason = payload.subspan(2);
    if (!is_utf8(reason)) return fail(websocket_errc::bad_utf8);
    frames.received_reason.assign(reinterpret_cast<const char*>(reason.data()), reason.size());
  }
  received_close_ = code;
  send_close(code, {});
  drop_message();
  return event::closed;
}

// --- Sending ---

websocket_mask websocket_session::next_mask() {
  mask_supply* const masks = &*extras_->masks;
  if (masks->used == masks->bytes.size()) {
    gyre::detail::require_random(masks->bytes, "http::websocket: random numbers");
    masks->used = 0;
  }
  websocket_mask mask;
  std::copy_n(masks->bytes.begin() + static_cast<std::ptrdiff_t>(masks->used), mask.size(),
              mask.begin());
  masks->used += mask.size();
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
  const std::span<std::byte> room = output.prepare(websocket_header::max_size + payload.size());
  const std::size_t head_size = header.write(room.first<websocket_header::max_size>());
  copy_bytes(header, 0, payload, room.data() + head_size);
  output.commit(head_size + payload.size());
}

void websocket_session::append_control_frame(websocket_opcode opcode,
                                             std::span<const std::byte> payload,
                                             io::buffer& output) {
  append_frame({.opcode = opcode, .length = payload.size()}, payload, output);
}

void websocket_session::send_ping() {
  if (!has_sent_close_) append_control_frame(websocket_opcode::ping, {}, make_control().output);
}

void websocket_session::send_close(close_code code, std::string_view reason) {
  if (has_sent_close_) return;
  has_sent_close_ = true;
  std::array<std::byte, websocket_header::max_control> payload;
  std::size_t size = 0;
  if (code != close_code::none) {
    store_be(payload.data(), static_cast<std::uint16_t>(code));
    reason = reason.substr(0, max_reason);
    std::ranges::copy(std::as_bytes(std::span(reason)), payload.begin() + 2);
    size = 2 + reason.size();
  }
  control_frames& frames = make_control();
  if (std::exchange(frames.has_late_pong, false)) {
    append_control_frame(websocket_opcode::pong, std::as_bytes(std::span(frames.late_pong)),
                         frames.output);
  }
  append_control_frame(websocket_opcode::close, std::span(payload).first(size), frames.output);
}

void websocket_session::append_control(io::buffer& output) {
  control_frames* const frames = control();
  if (frames == nullptr) return;
  output.append(frames->output.bytes());
  frames->output = io::buffer({.prepend = 0});
  if (std::exchange(frames->has_late_pong, false)) {
    append_control_frame(websocket_opcode::pong, std::as_bytes(std::span(frames->late_pong)),
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
  const std::span<std::byte> room = output.prepare(websocket_header::max_size);
  output.commit(header.write(room.first<websocket_header::max_size>()));
}

void websocket_session::begin_message(websocket_kind kind, std::size_t size) {
  sending_kind_ = kind;
  packing_state* const pack = packing();
  if (pack == nullptr || size == 0 || size < pack->options.min_size) return;
  extras_->sending.emplace(outgoing{.header = {.opcode = opcode_of(kind)}, .is_packed = true});
}

bool websocket_session::append_data(std::span<const std::byte>& rest, io::buffer& output) {
  if (extras_ == nullptr || !extras_->sending) {
    const websocket_header header{.opcode = opcode_of(sending_kind_), .length = rest.size()};
    if (rest.size() <= max_frame_output) {
      append_frame(header, std::exchange(rest, {}), output);
      return true;
    }
    extras().sending.emplace(outgoing{.header = header});
  }
  outgoing& message = *extras_->sending;
  const bool is_complete = message.is_packed ? append_packed(message, rest, output)
                                             : append_plain(message, rest, output);
  if (is_complete) extras_->sending.reset();
  return is_complete;
}

// Appends one frame. A frame's length is known only when it is compressed, so that a long message
// needs several frames.
bool websocket_session::append_packed(outgoing& message, std::span<const std::byte>& rest,
                                      io::buffer& output) {
  packing_state& pack = *packing();
  std::unique_ptr<message_deflater>& deflater = pack.deflater;
  if (deflater == nullptr) {
    const int level = pack.options.level;
    const unsigned window_bits = pack.agreement.window_bits;
    deflater = spare<message_deflater>::take(
        [&](const message_deflater& object) {
          return object.level() == level && object.window_bits() == window_bits;
        },
        level, window_bits);
  }
  websocket_header& header = message.header;
  const std::size_t begin = output.size();
  static_cast<void>(output.prepare(websocket_header::max_size));
  output.commit(websocket_header::max_size);
  const std::size_t expected = rest.size() + rest.size() / 64 + 64;
  const bool is_complete = deflater->step(rest, output, std::min(expected, max_frame_output));
  header.is_final = is_complete;
  header.reserved = message.is_first ? rsv1 : 0;
  header.length = output.size() - begin - websocket_header::max_size;
  set_mask(header);
  std::array<std::byte, websocket_header::max_size> head;
  const std::size_t head_size = header.write(head);
  const std::span<std::byte> frame = output.mutable_bytes().subspan(begin);
  const auto length = static_cast<std::size_t>(header.length);
  std::memmove(frame.data() + head_size, frame.data() + head.size(), length);
  std::copy_n(head.begin(), head_size, frame.begin());
  output.drop_last(head.size() - head_size);
  if (header.is_masked) {
    const std::span<std::byte> payload = frame.subspan(head_size, length);
    copy_masked(payload, payload.data(), header.mask, 0);
  }
  header.opcode = websocket_opcode::continuation;
  message.is_first = false;
  if (is_complete && !pack.agreement.keeps_context) {
    deflater->reset();
    spare<message_deflater>::keep(std::move(deflater));
  }
  return is_complete;
}

// Appends a part of the message's only frame, with its header before the first part.
bool websocket_session::append_plain(outgoing& message, std::span<const std::byte>& rest,
                                     io::buffer& output) {
  const std::span<const std::byte> part = rest.first(std::min(rest.size(), max_frame_output));
  if (std::exchange(message.is_first, false)) append_header(message.header, output);
  const std::span<std::byte> room = output.prepare(part.size());
  copy_bytes(message.header, message.sent, part, room.data());
  output.commit(part.size());
  message.sent += part.size();
  rest = rest.subspan(part.size());
  return rest.empty();
}

std::optional<unsigned> websocket_session::shared_window_bits() const noexcept {
  const packing_state* const pack = packing();
  if (pack == nullptr || pack->agreement.keeps_context) return std::nullopt;
  return pack->agreement.window_bits;
}

std::span<const std::byte> websocket_session::frames_of(
    const encoded_message& message) const noexcept {
  const auto window = shared_window_bits();
  const bool is_packed = window && !message.packed.empty() && message.packed_window_bits <= *window;
  return is_packed ? message.packed : message.frame;
}

}  // namespace gyre::http::detail
