// SPDX-License-Identifier: Apache-2.0
// Fuzz target: frames of HTTP/2 into a client's session. Memory stays within its limit, heads
// within theirs, and each stream has events only between its request and its end.
#include <gyre/http/detail/http2_session.hpp>

#include <gyre/http/http2_test_support.hpp>
#include <tests/fuzz/fuzz.hpp>
#include <tests/fuzz/http2_frames.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace {

using namespace gyre::http::test;
using gyre::fuzz::decisions;
using gyre::fuzz::http2_body;
using gyre::fuzz::require;
using gyre::http::http2_client_options;
using gyre::http::detail::header_block;
using gyre::http::detail::http2_error;
using gyre::http::detail::http2_event;
using gyre::http::detail::http2_session;

// The bytes that a server may send before it knows the client's window.
constexpr std::size_t initial_window = 65'535;

// Bytes that nghttp2 holds for the requests, which do not count as the server's.
constexpr std::size_t memory_of_requests = 40'000;

void exchange(std::string_view bytes, std::size_t piece, std::size_t choice) {
  http2_client_options options;
  options.session_memory = 300'000;
  options.stream_window = 2000;
  const gyre::steady_time time{std::chrono::hours{1000}};
  http2_session session(options, {.start_line = 500, .fields = 1000, .field_count = 10});
  struct stream_state {
    bool has_response = false;
    bool has_ended = false;
    std::size_t waiting = 0;
  };
  std::map<std::int32_t, stream_state> open;
  http2_body body;
  header_block head;
  for (const auto& [name, value] : request_fields("POST", "/")) head.add(name, value);
  gyre::io::buffer output;
  int owner = 0;
  const auto send = [&] {
    for (int i = 0; i < 100 && session.append_output(output, time); ++i) output.clear();
  };
  const auto note = [&] {
    while (const auto event = session.next_event()) {
      if (event->what == http2_event::kind::data) session.credit_connection(event->bytes.size());
      if (event->owner == nullptr) continue;
      require(event->owner == &owner && open.contains(event->stream));
      stream_state& state = open[event->stream];
      require(session.head().size() <= 14);
      switch (event->what) {
        case http2_event::kind::request: require(false); break;
        case http2_event::kind::interim: require(!state.has_response); break;
        case http2_event::kind::response:
        case http2_event::kind::refused:
          require(!state.has_response && !state.has_ended);
          state.has_response = true;
          state.has_ended = event->is_end;
          break;
        case http2_event::kind::data:
          require(state.has_response && !state.has_ended);
          state.waiting += event->bytes.size();
          require(state.waiting <= initial_window);
          if (event->stream % 3 == 0) {
            session.credit_stream(event->stream, state.waiting);
            state.waiting = 0;
          }
          break;
        case http2_event::kind::end:
          require(state.has_response && !state.has_ended);
          state.has_ended = true;
          break;
        case http2_event::kind::sent: break;
        case http2_event::kind::closed: open.erase(event->stream); break;
      }
    }
  };
  for (std::size_t i = 0; i != 3 + choice % 5; ++i) {
    if (session.may_request()) {
      const std::int32_t stream = session.request(head, i % 2 == 0 ? nullptr : &body, &owner);
      if (stream != 0) require(open.emplace(stream, stream_state()).second);
    }
    if (i % 3 == choice % 3) send();
    note();
  }
  while (!bytes.empty()) {
    gyre::io::input input(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (!input.empty()) {
      session.receive(input, time);
      note();
      require(session.memory() <= options.session_memory + memory_of_requests);
    }
    if (choice % 2 == 0) send();
    note();
    if (choice % 7 == 3 && !open.empty()) {
      session.reset(open.begin()->first, http2_error::cancel);
    }
  }
  send();
  note();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions choose(data, size);
  std::string bytes;
  if (choose.below(10) != 0) bytes = frame(settings_frame, 0, 0);
  std::uint32_t next_stream = 1;
  while (!choose.empty() && bytes.size() < 20'000) {
    const std::uint32_t stream =
        choose.below(4) == 0 ? static_cast<std::uint32_t>(choose.below(20)) : next_stream;
    const std::uint8_t flags = gyre::fuzz::make_flags(choose);
    const std::size_t kind = choose.below(11);
    if (kind < 2) {
      const char* const status = choose.below(3) == 0 ? "103" : "200";
      bytes += frame(headers_frame, static_cast<std::uint8_t>(flags | end_headers), stream,
                     block_of({{":status", status}, {"x", std::string(choose.below(200), 'y')}}));
      if (choose.flip()) next_stream += 2;
    } else if (kind == 9) {
      bytes += frame(goaway_frame, 0, 0,
                     big_endian(static_cast<std::uint32_t>(choose.below(9))) + big_endian(0));
    } else {
      bytes += gyre::fuzz::make_frame(choose, kind - 2, stream, flags, 7);
    }
  }
  exchange(bytes, bytes.size() + 1, size);
  exchange(bytes, 1 + size % 17, size / 3);
  return 0;
}
