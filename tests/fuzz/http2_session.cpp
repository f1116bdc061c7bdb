// SPDX-License-Identifier: Apache-2.0
// Fuzz target: frames of HTTP/2 into a server's session. Memory stays within its limit, heads
// within theirs, and each stream has events only between its request and its end.
#include <gyre/http/detail/http2_session.hpp>

#include <gyre/http/http2_test_support.hpp>
#include <tests/fuzz/fuzz.hpp>
#include <tests/fuzz/http2_frames.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace {

using namespace gyre::http::test;
using gyre::fuzz::decisions;
using gyre::fuzz::http2_body;
using gyre::fuzz::require;
using gyre::http::http2_options;
using gyre::http::detail::header_block;
using gyre::http::detail::http2_error;
using gyre::http::detail::http2_event;
using gyre::http::detail::http2_session;

// Bytes that nghttp2 holds for a response before it is sent, which do not count as the client's.
constexpr std::size_t memory_of_response = 1024;

void serve(std::string_view bytes, std::size_t piece, std::size_t choice) {
  http2_options options;
  options.max_streams = 10;
  options.session_memory = 200'000;
  options.stream_window = 2000;
  options.connection_window = 70'000;
  const gyre::steady_time time{std::chrono::hours{1000}};
  http2_session session(options, {.start_line = 500, .fields = 1000, .field_count = 10});
  http2_body body;
  header_block ok;
  ok.add(":status", "200");
  std::set<std::int32_t> open;
  gyre::io::buffer output;
  std::size_t responses = 0;
  const auto note = [&] {
    while (const auto event = session.next_event()) {
      switch (event->what) {
        case http2_event::kind::request:
        case http2_event::kind::refused:
          require(open.insert(event->stream).second);
          session.set_owner(event->stream, &body);
          require(session.head().size() <= 14);
          ++responses;
          switch ((static_cast<std::size_t>(event->stream) / 2 + choice) % 4) {
            case 0: session.respond(event->stream, ok, &body); break;
            case 1: session.respond(event->stream, ok, nullptr); break;
            case 2: session.reset(event->stream, http2_error::cancel); break;
            default: break;
          }
          break;
        case http2_event::kind::data:
          session.credit_connection(event->bytes.size());
          if (event->owner != nullptr) session.credit_stream(event->stream, event->bytes.size());
          break;
        case http2_event::kind::end: require(open.contains(event->stream)); break;
        case http2_event::kind::response:
        case http2_event::kind::interim: require(false); break;
        case http2_event::kind::sent:
          require(event->owner == nullptr || open.contains(event->stream));
          break;
        case http2_event::kind::closed:
          require(event->owner == nullptr || open.erase(event->stream) == 1);
          break;
      }
    }
  };
  while (!bytes.empty()) {
    gyre::io::input input(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (!input.empty()) {
      session.receive(input, time);
      note();
      require(session.memory() <= options.session_memory + responses * memory_of_response);
    }
  }
  for (int i = 0; i < 1000 && session.append_output(output, time); ++i) output.clear();
  note();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions choose(data, size);
  std::string bytes;
  if (choose.below(10) != 0) bytes = client_hello();
  std::uint32_t next_stream = 1;
  while (!choose.empty() && bytes.size() < 20'000) {
    const std::uint32_t stream = choose.below(4) == 0
                                     ? static_cast<std::uint32_t>(choose.below(next_stream + 3U))
                                     : next_stream;
    const std::uint8_t flags = gyre::fuzz::make_flags(choose);
    const std::size_t kind = choose.below(10);
    if (kind < 2) {
      bytes += request_frame(stream, "POST", "/a", flags & end_stream,
                             {{"cookie", "a"}, {"x", std::string(choose.below(200), 'y')}});
      next_stream += 2;
    } else {
      bytes += gyre::fuzz::make_frame(choose, kind - 2, stream, flags, 8);
    }
  }
  serve(bytes, bytes.size() + 1, 0);
  serve(bytes, 1 + size % 17, size);
  return 0;
}
