// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/http2_session.hpp>

#include <gyre/base/endian.hpp>
#include <gyre/base/slab.hpp>

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace gyre::http::detail {
namespace {

constexpr std::size_t preface_size = 24;
constexpr std::size_t header_size = 9;
// Most clients send no CONTINUATION frame at all, because a frame holds 16 KiB.
constexpr std::uint32_t min_continuations = 8;
// The assumed size of a head's frames, which may be only half full.
constexpr std::size_t half_frame = std::size_t{8} << 10;
// The pseudo-header fields of a request do not count against head_limits::field_count.
constexpr std::size_t pseudo_fields = 4;
// A head that is this many times as long as its limit ends the connection, not only its stream.
constexpr std::size_t max_excess = 4;
// The number of frames without content that a client may send for each request, and for each DATA
// frame.
constexpr std::uint32_t frames_per_request = 8;
constexpr std::uint32_t frames_per_data = 3;
// The work of one frame, in bytes of fields: first of HEADERS and RST_STREAM, then of DATA, then of
// others.
constexpr std::size_t work_of_stream = 4096;
constexpr std::size_t work_of_data = 128;
constexpr std::size_t work_of_frame = 256;
// This many bytes of a body are as much work as a byte of a field.
constexpr std::size_t data_per_work = 64;
// The work of a field besides that of its text.
constexpr std::size_t work_of_field = 128;
// The work of a byte of a head whose fields nghttp2 decodes for its tables alone.
constexpr std::size_t work_of_ignored_byte = 16;
// The part of a head that is decoded at once: its work is known only afterwards.
constexpr std::size_t max_part_of_head = 1024;

std::string_view text_of(const std::uint8_t* bytes, std::size_t size) noexcept {
  return {reinterpret_cast<const char*>(bytes), size};
}

// nghttp2 does not change these texts, although its type is not const.
std::uint8_t* bytes_of(std::string_view text) noexcept {
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

// Returns a size as the value of a setting, which has 31 bits.
constexpr std::uint32_t size_setting(std::uint64_t size) noexcept {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(size, std::numeric_limits<std::int32_t>::max()));
}

// Returns how many CONTINUATION frames a head may have that is as long as its limits allow.
constexpr std::uint32_t continuations_of(const head_limits& limits) noexcept {
  const std::size_t frames = limits.fields / half_frame + limits.start_line / half_frame;
  return static_cast<std::uint32_t>(
      std::clamp<std::size_t>(frames, min_continuations, std::numeric_limits<std::int32_t>::max()));
}

// Only some versions of nghttp2 have the function: 1.61 and later, and Debian's 1.52. The others
// lack the limit.
template <class Option>
void set_max_continuations(Option* settings, std::uint32_t count) {
  if constexpr (requires { nghttp2_option_set_max_continuations(settings, count); }) {
    nghttp2_option_set_max_continuations(settings, count);
  }
}

// nghttp2 ends a connection of its own accord after 1000 resets by the client and 33 more in each
// second, even of complete streams. The token buckets of the session limit them instead. nghttp2
// has the function since 1.57, and Debian's 1.52, too; others have no limit of their own.
template <class Option>
void lift_limit_of_resets(Option* settings) {
  if constexpr (requires { nghttp2_option_set_stream_reset_rate_limit(settings, 0, 0); }) {
    constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();
    nghttp2_option_set_stream_reset_rate_limit(settings, unlimited, unlimited);
  }
}

// Whether the client has caused the server to reset a stream.
constexpr bool is_provoked(std::uint32_t error) noexcept {
  switch (static_cast<http2_error>(error)) {
    case http2_error::none:
    case http2_error::internal_error:
    case http2_error::cancel:
    case http2_error::http_1_1_required: return false;
    default: return true;
  }
}

// The fields of a head for nghttp2, which copies them.
class name_values {
 public:
  explicit name_values(const header_block& head) {
    if (head.size() > few_pairs_.size()) many_pairs_.resize(head.size());
    nghttp2_nv* const pairs = many_pairs_.empty() ? few_pairs_.data() : many_pairs_.data();
    for (std::size_t i = 0; i < head.size(); ++i) {
      const field field = head[i];
      pairs[i] = {.name = bytes_of(field.name),
                  .value = bytes_of(field.value),
                  .namelen = field.name.size(),
                  .valuelen = field.value.size(),
                  .flags = NGHTTP2_NV_FLAG_NONE};
    }
    pairs_ = {pairs, head.size()};
  }
  name_values(const name_values&) = delete;
  name_values& operator=(const name_values&) = delete;

  const nghttp2_nv* data() const noexcept { return pairs_.data(); }
  std::size_t size() const noexcept { return pairs_.size(); }

 private:
  std::array<nghttp2_nv, 32> few_pairs_;  // NOLINT(*-member-init): written before it is read
  std::vector<nghttp2_nv> many_pairs_;
  std::span<const nghttp2_nv> pairs_;
};

}  // namespace

std::string name_of(http2_error error) {
  const auto code = static_cast<std::uint32_t>(error);
  if (error > http2_error::http_1_1_required) return "code " + std::to_string(code);
  return nghttp2_http2_strerror(code);
}

// The functions that nghttp2 calls. Since nghttp2 expects no change of the session meanwhile, they
// only note the events for later.
struct http2_session::callbacks {
  static http2_session& self(void* user) noexcept { return *static_cast<http2_session*>(user); }

  // Runs a function that may throw: an exception must not pass through nghttp2, which is C.
  template <class Function>
  static int guard(Function function) noexcept {
    try {
      return function();
    } catch (...) {
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }

  // --- Memory ---

  struct alignas(slab_alignment) block_header {
    std::size_t size;
    bool is_of_peer;
  };

  static void* allocate(std::size_t size, void* user) noexcept {
    http2_session& session = self(user);
    const std::size_t whole = size + sizeof(block_header);
    const bool is_of_peer = session.is_of_peer_;
    if (is_of_peer &&
        (size > session.max_memory_ || session.peer_memory_ + whole > session.max_memory_)) {
      session.note_abuse(http2_abuse::memory);
      return nullptr;
    }
    try {
      auto* const block = static_cast<block_header*>(slab_allocate(whole));
      block->size = whole;
      block->is_of_peer = is_of_peer;
      session.memory_ += whole;
      if (is_of_peer) session.peer_memory_ += whole;
      return block + 1;
    } catch (...) {
      return nullptr;
    }
  }
  static void release(void* memory, void* user) noexcept {
    if (memory == nullptr) return;
    block_header* const block = static_cast<block_header*>(memory) - 1;
    self(user).memory_ -= block->size;
    if (block->is_of_peer) self(user).peer_memory_ -= block->size;
    slab_deallocate(block, block->size);
  }
  static void* allocate_zeroed(std::size_t count, std::size_t size, void* user) noexcept {
    if (size != 0 && count > std::numeric_limits<std::size_t>::max() / size) return nullptr;
    void* const memory = allocate(count * size, user);
    if (memory != nullptr) std::memset(memory, 0, count * size);
    return memory;
  }
  static void* reallocate(void* memory, std::size_t size, void* user) noexcept {
    void* const new_block = allocate(size, user);
    if (new_block == nullptr || memory == nullptr) return new_block;
    const block_header* const block = static_cast<block_header*>(memory) - 1;
    std::memcpy(new_block, memory, std::min(size, block->size - sizeof(block_header)));
    release(memory, user);
    return new_block;
  }

  // --- Received frames ---

  static int begin_head(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                        void* user) noexcept {
    http2_session& session = self(user);
    session.head_.clear();
    session.head_cost_ = 0;
    session.head_is_refused_ = false;
    session.head_is_ignored_ = false;
    if (!session.is_client()) {
      session.last_stream_ = std::max(session.last_stream_, frame->hd.stream_id);
    }
    return 0;
  }

  static int add_field(nghttp2_session* /*session*/, const nghttp2_frame* /*frame*/,
                       const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                       std::size_t value_size, std::uint8_t /*flags*/, void* user) noexcept {
    http2_session& session = self(user);
    return guard([&] {
      const std::size_t cost = name_size + value_size + header_block::cost_of_field;
      session.head_cost_ += cost;
      session.work_ += cost + work_of_field;
      const std::size_t max_cost = session.limits_.fields + session.limits_.start_line;
      if (session.head_cost_ > max_cost ||
          session.head_.size() == session.limits_.field_count + pseudo_fields) {
        session.head_is_refused_ = true;
        if (session.head_cost_ > max_excess * max_cost) session.note_abuse(http2_abuse::fields);
      } else {
        session.head_.add(text_of(name, name_size), text_of(value, value_size));
      }
      if (session.work_ <= session.work_of_pause_) return 0;
      session.is_paused_ = true;
      return static_cast<int>(NGHTTP2_ERR_PAUSE);
    });
  }

  // By default nghttp2 drops such a field; RFC 9113 (8.1.1) demands a stream error.
  static int refuse_field(nghttp2_session* /*session*/, const nghttp2_frame* /*frame*/,
                          const std::uint8_t* /*name*/, std::size_t /*name_size*/,
                          const std::uint8_t* /*value*/, std::size_t /*value_size*/,
                          std::uint8_t /*flags*/, void* user) noexcept {
    self(user).head_is_ignored_ = true;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }

  static int note_invalid(nghttp2_session* /*session*/, const nghttp2_frame* /*frame*/,
                          int /*error*/, void* user) noexcept {
    self(user).head_is_ignored_ = true;
    return 0;
  }

  static int note_frame(nghttp2_session* library, const nghttp2_frame* frame, void* user) noexcept {
    http2_session& session = self(user);
    return guard([&] {
      if (frame->hd.type == NGHTTP2_SETTINGS) {
        const bool is_acknowledgement = (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;
        (is_acknowledgement ? session.has_acknowledged_ : session.has_settings_) = true;
        return 0;
      }
      const bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
      if (frame->hd.type == NGHTTP2_RST_STREAM ||
          (is_end && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS))) {
        session.history_.finish(static_cast<std::uint32_t>(frame->hd.stream_id));
      }
      if (frame->hd.type == NGHTTP2_HEADERS && session.is_client() &&
          session.is_response(frame->headers.cat == NGHTTP2_HCAT_RESPONSE)) {
        session.events_.push_back(
            {.what = session.kind_of_response(),
             .is_end = is_end,
             .stream = frame->hd.stream_id,
             .owner = nghttp2_session_get_stream_user_data(library, frame->hd.stream_id)});
        return 0;
      }
      if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        session.frames_.give(frames_per_request);
        session.events_.push_back({.what = session.head_is_refused_ ? http2_event::kind::refused
                                                                    : http2_event::kind::request,
                                   .is_end = is_end,
                                   .stream = frame->hd.stream_id});
        return 0;
      }
      if (!is_end || (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS)) {
        return 0;
      }
      // Trailers that are too large are dropped, as every recipient may drop trailers.
      if (frame->hd.type == NGHTTP2_DATA || session.head_is_refused_) session.head_.clear();
      session.events_.push_back(
          {.what = http2_event::kind::end,
           .stream = frame->hd.stream_id,
           .owner = nghttp2_session_get_stream_user_data(library, frame->hd.stream_id)});
      return 0;
    });
  }

  static int note_data(nghttp2_session* library, std::uint8_t /*flags*/, std::int32_t stream,
                       const std::uint8_t* data, std::size_t size, void* user) noexcept {
    http2_session& session = self(user);
    return guard([&] {
      session.frames_.give(frames_per_data);
      session.events_.push_back({.what = http2_event::kind::data,
                                 .stream = stream,
                                 .owner = nghttp2_session_get_stream_user_data(library, stream),
                                 .bytes = std::as_bytes(std::span(data, size))});
      return 0;
    });
  }

  static int note_close(nghttp2_session* library, std::int32_t stream, std::uint32_t error,
                        void* user) noexcept {
    http2_session& session = self(user);
    return guard([&] {
      session.events_.push_back({.what = http2_event::kind::closed,
                                 .stream = stream,
                                 .owner = nghttp2_session_get_stream_user_data(library, stream),
                                 .error = stream == session.unsent_stream_
                                              ? http2_error::refused_stream
                                              : static_cast<http2_error>(error),
                                 .is_own_reset = stream == session.reset_stream_});
      return 0;
    });
  }

  // --- Sent frames ---

  static int note_sent(nghttp2_session* library, const nghttp2_frame* frame, void* user) noexcept {
    http2_session& session = self(user);
    return guard([&] {
      if (frame->hd.type == NGHTTP2_RST_STREAM) {
        session.reset_stream_ = frame->hd.stream_id;
        // A client's own resets need no limit, as it sends few requests.
        const bool counts = !session.is_client() && is_provoked(frame->rst_stream.error_code);
        if (counts) ++session.provoked_count_;
        return 0;
      }
      if (frame->hd.type == NGHTTP2_HEADERS) {
        session.events_.push_back(
            {.what = http2_event::kind::sent,
             .stream = frame->hd.stream_id,
             .owner = nghttp2_session_get_stream_user_data(library, frame->hd.stream_id)});
      }
      if (session.is_client()) return 0;
      const bool ends = (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
                        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
      if (ends && nghttp2_session_get_stream_remote_close(library, frame->hd.stream_id) == 0) {
        session.ended_early_.push_back(frame->hd.stream_id);
      }
      return 0;
    });
  }

  static int note_unsent_frame(nghttp2_session* /*session*/, const nghttp2_frame* frame, int error,
                               void* user) noexcept {
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    http2_session& session = self(user);
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      session.unsent_stream_ = frame->hd.stream_id;  // nghttp2 then closes the stream
      return 0;
    }
    if (error != NGHTTP2_ERR_FRAME_SIZE_ERROR) return 0;
    return guard([&] {
      session.unsendable_streams_.push_back(frame->hd.stream_id);
      return 0;
    });
  }

  static ssize_t offer_data(nghttp2_session* /*session*/, std::int32_t stream,
                            std::uint8_t* /*buffer*/, std::size_t max_size, std::uint32_t* flags,
                            nghttp2_data_source* source, void* user) noexcept {
    auto& body = *static_cast<http2_body_source*>(source->ptr);
    const http2_body_source::offer offer = body.offer_bytes(max_size);
    if (offer.size == 0 && !offer.is_last) return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (!offer.is_last) return static_cast<ssize_t>(offer.size);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    const header_block* const trailers = body.trailers();
    if (trailers != nullptr && !trailers->empty()) {
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const int error = guard([&] {
        self(user).awaiting_trailers_.push_back({stream, trailers});
        return 0;
      });
      if (error != 0) return error;
    }
    return static_cast<ssize_t>(offer.size);
  }

  static int send_data(nghttp2_session* /*session*/, nghttp2_frame* /*frame*/,
                       const std::uint8_t* header, std::size_t size, nghttp2_data_source* source,
                       void* user) noexcept {
    http2_session& session = self(user);
    return guard([&]() -> int {
      io::buffer& output = *session.output_;
      const std::size_t old_size = output.size();
      output.append(std::as_bytes(std::span(header, header_size)));
      if (size != 0 && !static_cast<http2_body_source*>(source->ptr)->take_bytes(output, size)) {
        output.drop_last(output.size() - old_size);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
      }
      session.frames_.give(frames_per_data);
      return NGHTTP2_ERR_PAUSE;  // each call of append_output() sends one frame
    });
  }

  static nghttp2_session_callbacks* make() {
    nghttp2_session_callbacks* table = nullptr;
    if (nghttp2_session_callbacks_new(&table) != 0) throw std::bad_alloc();
    nghttp2_session_callbacks_set_on_begin_headers_callback(table, begin_head);
    nghttp2_session_callbacks_set_on_header_callback(table, add_field);
    nghttp2_session_callbacks_set_on_invalid_header_callback(table, refuse_field);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(table, note_invalid);
    nghttp2_session_callbacks_set_on_frame_recv_callback(table, note_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(table, note_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(table, note_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(table, note_sent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(table, note_unsent_frame);
    nghttp2_session_callbacks_set_send_data_callback(table, send_data);
    return table;
  }
  // Returns the table of functions, which all sessions share until the program ends.
  static const nghttp2_session_callbacks* shared() {
    static const nghttp2_session_callbacks* const table = make();
    return table;
  }

  // Makes nghttp2's session, whose first frame is SETTINGS.
  static void open(http2_session& session, std::span<const nghttp2_settings_entry> entries,
                   std::uint32_t window) {
    nghttp2_mem memory{.mem_user_data = &session,
                       .malloc = allocate,
                       .free = release,
                       .calloc = allocate_zeroed,
                       .realloc = reallocate};
    nghttp2_option* settings = nullptr;
    if (nghttp2_option_new(&settings) != 0) throw std::bad_alloc();
    nghttp2_option_set_no_auto_window_update(settings, 1);
    nghttp2_option_set_no_closed_streams(settings, 1);
    nghttp2_option_set_max_send_header_block_length(settings, max_sent_head);
    set_max_continuations(settings, session.max_continuations_);
    lift_limit_of_resets(settings);
    // The token bucket of frames and the limit of memory apply to acknowledgements that wait.
    nghttp2_option_set_max_outbound_ack(settings, std::numeric_limits<std::size_t>::max());
    nghttp2_session*& library = session.session_;
    const int result =
        session.is_client()
            ? nghttp2_session_client_new3(&library, shared(), &session, settings, &memory)
            : nghttp2_session_server_new3(&library, shared(), &session, settings, &memory);
    nghttp2_option_del(settings);
    if (result != 0) throw std::bad_alloc();
    const bool is_submitted =
        nghttp2_submit_settings(library, NGHTTP2_FLAG_NONE, entries.data(), entries.size()) == 0 &&
        nghttp2_session_set_local_window_size(library, NGHTTP2_FLAG_NONE, 0,
                                              static_cast<std::int32_t>(window)) == 0;
    if (!is_submitted) {
      nghttp2_session_del(library);
      throw std::bad_alloc();
    }
  }
};

http2_session::http2_session(const http2_options& options, const head_limits& fields)
    : role_(http2_role::server),
      limits_(fields.bounded()),
      max_memory_(options.session_memory),
      max_continuations_(continuations_of(limits_)),
      rest_of_frame_(preface_size),
      frames_(options.frame_burst, options.frames_per_second),
      resets_(options.reset_burst, options.resets_per_second),
      provoked_resets_(options.reset_burst, options.resets_per_second) {
  const std::array<nghttp2_settings_entry, 5> entries{{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options.max_streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, std::min(options.stream_window, max_initial_window)},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, size_setting(limits_.fields + limits_.start_line)},
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
      // The client's priorities are ignored: streams of the same urgency take turns, see respond().
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  callbacks::open(*this, entries, options.connection_window);
}

http2_session::http2_session(const http2_client_options& options, const head_limits& fields)
    : role_(http2_role::client),
      limits_(fields.bounded()),
      max_memory_(options.session_memory),
      max_continuations_(continuations_of(limits_)),
      rest_of_frame_(0),
      frames_(options.frame_burst, options.frames_per_second),
      resets_(0, 0),
      provoked_resets_(0, 0) {
  const std::array<nghttp2_settings_entry, 4> entries{{
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options.stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, size_setting(limits_.fields + limits_.start_line)},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  // The windows of the streams limit the input; the connection's window must never be the limit.
  const std::uint64_t window = std::max<std::uint64_t>(
      std::uint64_t{options.stream_window} * options.max_streams, NGHTTP2_INITIAL_WINDOW_SIZE);
  callbacks::open(*this, entries, size_setting(window));
}

http2_session::~http2_session() { nghttp2_session_del(session_); }

// --- Receiving ---

bool http2_session::receive(io::input& input, steady_time time, std::size_t max_work) {
  if (has_failed_ || nghttp2_session_want_read(session_) == 0) {
    input.consume_all();
    return false;
  }
  // Each call passes on the bytes of one frame, so that a flood of frames is noticed before nghttp2
  // has read it.
  std::size_t size = 0;
  if (rest_of_frame_ == 0) {
    const std::size_t missing_bytes = header_size - frame_header_size_;
    size = std::min(missing_bytes, input.size());
    std::memcpy(frame_header_.data() + frame_header_size_, input.data(), size);
    frame_header_size_ += size;
    if (frame_header_size_ != header_size) {
      input.consume(size);
      return true;
    }
    frame_header_size_ = 0;
    begin_frame(frame_header_, time);
    if (size != header_size && abuse_ == http2_abuse::none) {
      // nghttp2 counts each part of a header as a CONTINUATION frame, so it gets only whole
      // headers.
      input.consume(std::exchange(size, 0));
      static_cast<void>(pass_on(frame_header_, max_work));
    }
  }
  if (abuse_ == http2_abuse::none) {
    const bool is_limited = frame_is_head_ && max_work != unlimited_work;
    const std::size_t max_rest = is_limited ? max_part_of_head : input.size();
    const std::size_t rest = std::min({rest_of_frame_, input.size() - size, max_rest});
    const std::span<const std::byte> piece = input.bytes().first(size + rest);
    if (dependency_bytes_ != 0) read_dependency(piece.subspan(size));
    const std::size_t count = pass_on(piece, max_work);
    rest_of_frame_ -= count - size;
    input.consume(count);
    // nghttp2 has yet to notice the end of the frame after its last field.
    if (is_paused_ && rest_of_frame_ == 0)
      static_cast<void>(pass_on(piece.subspan(count), max_work));
    if (frame_is_head_ && head_is_ignored_) work_ += (count - size) * work_of_ignored_byte;
  }
  if (abuse_ != http2_abuse::none) {
    input.consume_all();
    end_abuse();
    return false;
  }
  return true;
}

// Passes bytes to nghttp2, up to the field at which `max_work` is reached. Returns the number of
// bytes that nghttp2 has read.
std::size_t http2_session::pass_on(std::span<const std::byte> bytes, std::size_t max_work) {
  is_paused_ = false;
  work_of_pause_ = work_ + std::min(max_work, unlimited_work - work_);
  const ssize_t result = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  check_result(static_cast<int>(std::min<ssize_t>(0, result)));
  return is_paused_ && result >= 0 ? static_cast<std::size_t>(result) : bytes.size();
}

// Returns the error of a frame on a stream that nghttp2 has forgotten; none for other frames.
http2_error http2_session::judge_stream(std::uint32_t type, std::uint32_t stream) const noexcept {
  switch (type) {
    case NGHTTP2_PRIORITY: return stream == 0 ? http2_error::protocol_error : http2_error::none;
    case NGHTTP2_HEADERS:
      if (history_.was_skipped(stream)) return http2_error::protocol_error;
      [[fallthrough]];
    case NGHTTP2_DATA:
      return history_.is_finished(stream) ? http2_error::stream_closed : http2_error::none;
    default: return http2_error::none;
  }
}

// Refuses a stream that depends on itself (RFC 7540, 5.3.1). nghttp2 does not read dependencies,
// because the server ignores them.
void http2_session::read_dependency(std::span<const std::byte> payload) {
  for (const std::byte byte : payload) {
    if (dependency_bytes_ == 0) return;
    dependency_ = (dependency_ << 8U) | std::to_integer<std::uint32_t>(byte);
    if (--dependency_bytes_ != 0) continue;
    if ((dependency_ & 0x7fffffffU) == frame_stream_) fail(http2_error::protocol_error);
  }
}

void http2_session::begin_frame(std::span<const std::byte> header, steady_time time) {
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(header[i]); };
  rest_of_frame_ = (byte(0) << 16U) | (byte(1) << 8U) | byte(2);
  const std::uint32_t type = byte(3);
  const std::uint32_t flags = byte(4);
  frame_stream_ = load_be<std::uint32_t>(header.data() + 5) & 0x7fffffffU;
  if (is_client()) {
    if (type == NGHTTP2_PUSH_PROMISE) return fail(http2_error::protocol_error);
  } else if (const http2_error error = judge_stream(type, frame_stream_);
             error != http2_error::none) {
    return fail(error);
  }
  if (type == NGHTTP2_HEADERS && frame_stream_ % 2 == 1) history_.begin(frame_stream_);
  dependency_bytes_ = type == NGHTTP2_PRIORITY && rest_of_frame_ == 5 ? 4 : 0;
  frame_is_head_ = type == NGHTTP2_HEADERS || type == NGHTTP2_CONTINUATION;
  // The head is ignored unless nghttp2 begins it.
  if (type == NGHTTP2_HEADERS) head_is_ignored_ = true;
  if (frame_is_head_) block_is_open_ = (flags & NGHTTP2_FLAG_END_HEADERS) == 0;
  const bool concerns_stream = type == NGHTTP2_HEADERS || type == NGHTTP2_RST_STREAM;
  if (type == NGHTTP2_DATA && rest_of_frame_ != 0) {
    work_ += work_of_data + rest_of_frame_ / data_per_work;
  } else {
    work_ += concerns_stream ? work_of_stream : work_of_frame;
  }
  switch (type) {
    case NGHTTP2_HEADERS:
      continuations_ = 0;
      if (!is_client()) return;
      break;
    case NGHTTP2_CONTINUATION:
      if (++continuations_ > max_continuations_) note_abuse(http2_abuse::frames);
      return;
    case NGHTTP2_DATA:
      if (rest_of_frame_ != 0 || (flags & NGHTTP2_FLAG_END_STREAM) != 0) return;
      break;
    case NGHTTP2_RST_STREAM:
      if (is_client() || !owes_response(frame_stream_)) break;
      if (!resets_.take(time)) note_abuse(http2_abuse::resets);
      return;
    default: break;
  }
  if (!frames_.take(time)) note_abuse(http2_abuse::frames);
}

// Whether the stream is open, and its response has not been sent to the end.
bool http2_session::owes_response(std::uint32_t stream) const noexcept {
  return nghttp2_session_get_stream_local_close(session_, static_cast<std::int32_t>(stream)) == 0;
}

// Whether the received head is a response. Trailers have no ":status".
bool http2_session::is_response(bool is_first) const noexcept {
  return is_first || (!head_.empty() && head_[0].name == ":status");
}

http2_event::kind http2_session::kind_of_response() const noexcept {
  if (head_is_refused_ || head_.empty()) return http2_event::kind::refused;
  return head_[0].value.starts_with('1') ? http2_event::kind::interim : http2_event::kind::response;
}

header_block http2_session::take_head() noexcept { return std::exchange(head_, {}); }

std::optional<http2_event> http2_session::next_event() {
  if (next_event_ == events_.size()) {
    events_.clear();
    next_event_ = 0;
    if (!awaits_rest_of_head()) head_.clear();
    return std::nullopt;
  }
  return events_[next_event_++];
}

void http2_session::note_abuse(http2_abuse kind) noexcept {
  if (abuse_ == http2_abuse::none) abuse_ = kind;
}

void http2_session::end_abuse() { fail(http2_error::enhance_your_calm); }

// Handles the result of a function of nghttp2. An error that is not fatal is ignored, because it
// concerns a stream that has ended.
void http2_session::check_result(int result) {
  switch (result) {
    case NGHTTP2_ERR_NOMEM:
    case NGHTTP2_ERR_CALLBACK_FAILURE: has_failed_ = true; return;
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC: fail(http2_error::protocol_error); return;
    default:
      // The other fatal errors are limits of nghttp2.
      if (result < NGHTTP2_ERR_FATAL) note_abuse(http2_abuse::frames);
      return;
  }
}

// --- Streams ---

void http2_session::set_owner(std::int32_t stream, void* owner) noexcept {
  nghttp2_session_set_stream_user_data(session_, stream, owner);
}

bool http2_session::may_send(const header_block& head) noexcept {
  if (head.cost() <= max_sent_text) return true;
  if (head.cost() > max_sent_head) return false;
  for (std::size_t i = 0; i < head.size(); ++i) {
    const field field = head[i];
    if (field.name.size() > max_sent_text || field.value.size() > max_sent_text) return false;
  }
  return true;
}

void http2_session::respond(std::int32_t stream, const header_block& head,
                            http2_body_source* body) {
  if (has_failed_) return;
  const own_message scope(*this);
  const name_values fields(head);
  nghttp2_data_provider provider{.source = {.ptr = body}, .read_callback = callbacks::offer_data};
  check_result(nghttp2_submit_response(session_, stream, fields.data(), fields.size(),
                                       body == nullptr ? nullptr : &provider));
  // Incremental responses take turns, one frame each; otherwise one would be sent after the other.
  const nghttp2_extpri in_turn{.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
  check_result(nghttp2_session_change_extpri_stream_priority(session_, stream, &in_turn, 1));
}

std::int32_t http2_session::request(const header_block& head, http2_body_source* body,
                                    void* owner) {
  if (has_failed_) return 0;
  const own_message scope(*this);
  const name_values fields(head);
  nghttp2_data_provider provider{.source = {.ptr = body}, .read_callback = callbacks::offer_data};
  const std::int32_t stream =
      nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(),
                             body == nullptr ? nullptr : &provider, owner);
  frames_.give(frames_per_request);
  check_result(std::min(stream, 0));
  return std::max(stream, 0);
}

bool http2_session::may_request() const noexcept {
  return !has_failed_ && nghttp2_session_check_request_allowed(session_) != 0;
}

std::uint32_t http2_session::max_requests() const noexcept {
  return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

bool http2_session::allows_websockets() const noexcept {
  return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) ==
         1;
}

void http2_session::ping() {
  if (!has_failed_) check_result(nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr));
}

void http2_session::send_interim(std::int32_t stream, const header_block& head) {
  if (has_failed_) return;
  const own_message scope(*this);
  const name_values fields(head);
  check_result(nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream, nullptr, fields.data(),
                                      fields.size(), nullptr));
}

void http2_session::resume(std::int32_t stream) noexcept {
  if (!has_failed_) check_result(nghttp2_session_resume_data(session_, stream));
}

void http2_session::reset(std::int32_t stream, http2_error error) {
  if (has_failed_) return;
  check_result(nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream,
                                         static_cast<std::uint32_t>(error)));
}

void http2_session::set_window(std::int32_t stream, std::size_t size) noexcept {
  constexpr std::size_t max = std::numeric_limits<std::int32_t>::max();
  if (has_failed_) return;
  check_result(nghttp2_session_set_local_window_size(
      session_, NGHTTP2_FLAG_NONE, stream, static_cast<std::int32_t>(std::min(size, max))));
}

std::size_t http2_session::window(std::int32_t stream) const noexcept {
  const auto size = nghttp2_session_get_stream_local_window_size(session_, stream);
  return static_cast<std::size_t>(std::max(size, 0));
}

std::size_t http2_session::connection_window() const noexcept {
  return static_cast<std::size_t>(std::max(nghttp2_session_get_local_window_size(session_), 0));
}

std::size_t http2_session::send_window(std::int32_t stream) const noexcept {
  const auto of_stream = nghttp2_session_get_stream_remote_window_size(session_, stream);
  const auto of_connection = nghttp2_session_get_remote_window_size(session_);
  return static_cast<std::size_t>(std::max(std::min(of_stream, of_connection), 0));
}

void http2_session::credit_stream(std::int32_t stream, std::size_t count) noexcept {
  if (!has_failed_) check_result(nghttp2_session_consume_stream(session_, stream, count));
}

void http2_session::credit_connection(std::size_t count) noexcept {
  if (!has_failed_) check_result(nghttp2_session_consume_connection(session_, count));
}

// --- The end ---

void http2_session::announce_end() {
  if (!has_failed_) check_result(nghttp2_submit_shutdown_notice(session_));
}

void http2_session::end() {
  if (has_failed_) return;
  check_result(nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                                     nghttp2_session_get_last_proc_stream_id(session_),
                                     NGHTTP2_NO_ERROR, nullptr, 0));
}

void http2_session::fail(http2_error error) {
  if (has_failed_) return;
  check_result(nghttp2_session_terminate_session(session_, static_cast<std::uint32_t>(error)));
}

bool http2_session::is_over() const noexcept {
  if (has_failed_) return has_sent_final_goaway_;
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

// --- Sending ---

bool http2_session::append_output(io::buffer& output, steady_time time) {
  if (has_failed_) return append_final_goaway(output);
  const std::size_t old_size = output.size();
  output_ = &output;
  const std::uint8_t* frame = nullptr;
  const ssize_t size = [&] {
    const own_message scope(*this);
    return nghttp2_session_mem_send(session_, &frame);
  }();
  output_ = nullptr;
  if (size > 0) output.append(std::as_bytes(std::span(frame, static_cast<std::size_t>(size))));
  check_result(static_cast<int>(std::min<ssize_t>(0, size)));
  // Trailers and resets without further bytes make their frames in the next call.
  const bool has_more = !awaiting_trailers_.empty() || !unsendable_streams_.empty();
  submit_trailers();
  reset_ended_streams();
  reset_unsendable_streams();
  if (!charge_provoked_resets(time)) {
    note_abuse(http2_abuse::provoked_resets);
    end_abuse();
  }
  return output.size() != old_size || has_failed_ || has_more;
}

void http2_session::submit_trailers() {
  const own_message scope(*this);
  for (const auto& [stream, trailers] : awaiting_trailers_) {
    const name_values fields(*trailers);
    check_result(nghttp2_submit_trailer(session_, stream, fields.data(), fields.size()));
  }
  awaiting_trailers_.clear();
}

// Resets the streams whose response has ended before the request, so that the client stops sending
// a body that nobody reads.
void http2_session::reset_ended_streams() {
  for (const std::int32_t stream : ended_early_) reset(stream, http2_error::none);
  ended_early_.clear();
}

// Resets the streams whose head or trailers are too long, so that the peer does not wait for them.
void http2_session::reset_unsendable_streams() {
  for (const std::int32_t stream : unsendable_streams_) reset(stream, http2_error::internal_error);
  unsendable_streams_.clear();
}

bool http2_session::charge_provoked_resets(steady_time time) {
  for (; provoked_count_ != 0; --provoked_count_) {
    if (!provoked_resets_.take(time)) {
      provoked_count_ = 0;
      return false;
    }
  }
  return true;
}

// Appends GOAWAY once, without nghttp2, which has failed.
bool http2_session::append_final_goaway(io::buffer& output) {
  if (std::exchange(has_sent_final_goaway_, true)) return false;
  const http2_error error =
      abuse_ == http2_abuse::none ? http2_error::internal_error : http2_error::enhance_your_calm;
  output.append(std::uint8_t{0});
  output.append(std::uint16_t{8});
  output.append(static_cast<std::uint8_t>(NGHTTP2_GOAWAY));
  output.append(std::uint8_t{0});
  output.append(std::uint32_t{0});
  output.append(static_cast<std::uint32_t>(last_stream_));
  output.append(static_cast<std::uint32_t>(error));
  return true;
}

}  // namespace gyre::http::detail
