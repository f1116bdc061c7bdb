// SPDX-License-Identifier: Apache-2.0
// Fuzz target: frames of WebSocket, with and without compression. The events do not depend on how
// the bytes are cut, a message obeys its limit and is UTF-8 if it is a text, and a session receives
// what another one sends.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/detail/websocket_session.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::http::close_code;
using gyre::http::websocket_kind;
using gyre::http::websocket_options;
using gyre::http::detail::deflate_agreement;
using gyre::http::detail::is_utf8;
using gyre::http::detail::receiving;
using gyre::http::detail::settings_pointer;
using gyre::http::detail::websocket_role;
using gyre::http::detail::websocket_session;
using event = websocket_session::event;

constexpr std::size_t max_message = 5000;

struct setting {
  websocket_role role;
  receiving mode;
  std::optional<deflate_agreement> deflate;
};

std::string receive(std::span<const std::byte> input, std::size_t size, const setting& setup) {
  const websocket_options options{.limits = {.message = max_message, .frame = 100'000}};
  websocket_session session(setup.role, settings_pointer::share(options), {},
                            {.deflate = setup.deflate});
  std::string events;
  // Excludes the pieces of an unfinished message: how many of them came before the end depends on
  // how the bytes are cut.
  std::size_t end_of_messages = 0;
  gyre::io::buffer output;
  while (!input.empty()) {
    auto piece = input.first(std::min(size, input.size()));
    input = input.subspan(piece.size());
    for (bool goes_on = true; goes_on;) {
      switch (session.next(piece, setup.mode)) {
        case event::message: {
          const auto message = session.data();
          if (setup.mode == receiving::messages) {
            require(message.bytes.size() <= max_message);
            require(!message.is_text() || is_utf8(message.bytes));
          }
          require(message.bytes.size() <= std::size_t{64} << 10);
          events += message.text();
          if (message.is_last) {
            events += message.is_text() ? "t;" : "b;";
            end_of_messages = events.size();
          }
          break;
        }
        case event::wants_input:
          require(piece.empty());
          goes_on = false;
          break;
        case event::closed:
          require(session.has_sent_close());
          return events.substr(0, end_of_messages) + "closed";
        case event::failed:
          require(session.has_sent_close());
          return events.substr(0, end_of_messages) + "failed" +
                 std::to_string(static_cast<int>(session.error()));
      }
    }
    session.append_control(output);
    require(output.size() < 8192);
    output.clear();
  }
  return events;
}

// Sends the rest of the input as messages, and receives them.
void exchange(decisions& choices, const std::optional<deflate_agreement>& sending,
              const std::optional<deflate_agreement>& receiving_side, websocket_role sender) {
  const auto reader =
      sender == websocket_role::server ? websocket_role::client : websocket_role::server;
  websocket_session from(sender, {}, {.level = 1, .min_size = 0}, {.deflate = sending});
  websocket_session to(reader, settings_pointer::share({}), {}, {.deflate = receiving_side});
  gyre::io::buffer output;
  while (!choices.empty()) {
    const std::size_t repeats = 1 + choices.byte();
    const std::string part(choices.text(choices.byte()));
    std::string message;
    for (std::size_t i = 0; i < repeats; ++i) message += part;
    if (choices.byte() % 4 == 0) from.send_ping();
    from.append_control(output);
    from.begin_message(websocket_kind::binary, message.size());
    auto rest = std::as_bytes(std::span(message));
    while (!from.append_data(rest, output)) {
    }
    auto input = output.bytes();
    require(to.next(input, receiving::messages) == event::message);
    require(to.data().text() == message);
    require(input.empty());
    output.clear();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions choices(data, size);
  const unsigned first = choices.byte();
  const unsigned second = choices.byte();
  setting setup{.role = first % 2 == 0 ? websocket_role::server : websocket_role::client,
                .mode = first % 4 < 2 ? receiving::messages : receiving::pieces,
                .deflate = {}};
  const bool keeps = first % 16 < 8;
  const unsigned bits = 8 + second % 8;
  if (first % 8 >= 4) {
    setup.deflate = deflate_agreement{.window_bits = bits,
                                      .peer_window_bits = bits,
                                      .keeps_context = keeps,
                                      .keeps_peer_context = keeps};
  }
  if (second >= 128) {
    exchange(choices, setup.deflate, setup.deflate, setup.role);
    return 0;
  }
  const std::size_t cut = 1 + choices.byte() % 32;
  const auto input = std::as_bytes(std::span(data, size)).subspan(std::min<std::size_t>(size, 3));
  require(receive(input, size + 1, setup) == receive(input, cut, setup));
  return 0;
}
