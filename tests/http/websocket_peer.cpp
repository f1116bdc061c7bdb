// SPDX-License-Identifier: Apache-2.0
// The WebSocket peers of websocket_peers_test.py and of tools/autobahn, which echo messages.
//
//     gyre_websocket_peer serve [--deflate]      prints "listening on ADDRESS"; the path /callbacks
//                                                is served by callbacks, others by a coroutine
//     gyre_websocket_peer echo URL [--deflate] [--callbacks]
//                                                echoes as a client, and prints the status of the end
//     gyre_websocket_peer autobahn URL           is the client of all cases of a fuzzing server
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/connect_websocket.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/websocket_connection.hpp>
#include <gyre/runtime/runtime.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

namespace http = gyre::http;

http::websocket_options options_for(bool compresses) {
  constexpr std::size_t max_size = std::size_t{64} << 20;
  return {.limits = {.message = max_size, .frame = max_size},
          .compression = {.enabled = compresses, .window_bits = 15}};
}

gyre::task<> echo(http::websocket& socket) {
  while (const auto message = co_await socket.receive()) co_await socket.send(*message);
}

http::websocket_handlers echo_handlers() {
  http::websocket_handlers handlers;
  handlers.on_message([](http::websocket_connection& socket, http::websocket_message message) {
    socket.send(message);
  });
  return handlers;
}

void print_end(const http::websocket_connection& socket, std::error_code reason) {
  if (reason) {
    std::cout << "failed: " << reason.message() << std::endl;
  } else {
    std::cout << "closed: " << static_cast<unsigned>(*socket.close_status()) << ' '
              << socket.close_reason() << std::endl;
  }
}

gyre::task<> echo_by_callbacks(std::string url, http::websocket_options options) {
  http::websocket_handlers handlers = echo_handlers();
  handlers.on_close(print_end);
  auto running = http::connect_websocket(url, std::move(handlers), std::move(options));
  co_await std::move(running);
}

// Echoes until the server closes, or breaks a rule, which is no fault of this program.
gyre::task<> echo_to(std::string url, http::websocket_options options, bool is_verbose) {
  auto connecting = http::connect_websocket(url, options);
  http::websocket socket = co_await std::move(connecting);
  std::string end;
  try {
    auto echoing = echo(socket);
    co_await std::move(echoing);
    end = "closed: " + std::to_string(static_cast<unsigned>(*socket.close_status())) + " " +
          std::string(socket.close_reason());
  } catch (const std::system_error& error) {
    end = "failed: " + error.code().message();
  }
  if (is_verbose) std::cout << end << std::endl;
}

gyre::task<int> count_cases(std::string url) {
  auto connecting = http::connect_websocket(url);
  http::websocket socket = co_await std::move(connecting);
  const auto message = co_await socket.receive();
  int count = 0;
  if (message) {
    const std::string_view text = message->text();
    std::from_chars(text.data(), text.data() + text.size(), count);
  }
  co_await socket.close();
  co_return count;
}

gyre::task<> run_cases(std::string url) {
  auto counting = count_cases(url + "/getCaseCount");
  const int count = co_await std::move(counting);
  for (int number = 1; number <= count; ++number) {
    const std::string path = "/runCase?agent=gyre&case=" + std::to_string(number);
    auto echoing = echo_to(url + path, options_for(true), false);
    co_await std::move(echoing);
  }
  auto updating = echo_to(url + "/updateReports?agent=gyre", options_for(false), false);
  co_await std::move(updating);
  std::cout << count << " cases" << std::endl;
}

gyre::task<> serve(gyre::runtime& rt, bool compresses) {
  http::server server(rt.loops(), gyre::net::endpoint("127.0.0.1:0"));
  const http::websocket_options options = options_for(compresses);
  server.get("/callbacks", [options](const http::request& request) {
    return http::accept_websocket(request, echo_handlers(), options);
  });
  server.get("/{path...}", [options](const http::request& request) {
    return http::accept_websocket(request, echo, options);
  });
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;
  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  co_await rt.drained();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto take_flag = [&](std::string_view name) { return std::erase(words, name) != 0; };
  const bool compresses = take_flag("--deflate");
  const bool uses_callbacks = take_flag("--callbacks");
  const std::string mode = words.empty() ? "" : words[0];
  if (words.size() != (mode == "serve" ? 1U : 2U) ||
      (mode != "serve" && mode != "echo" && mode != "autobahn")) {
    std::cerr << "usage: gyre_websocket_peer serve [--deflate]\n"
                 "       gyre_websocket_peer echo URL [--deflate] [--callbacks]\n"
                 "       gyre_websocket_peer autobahn URL\n";
    return 2;
  }
  return gyre::runtime::main({.loops = 1}, [&](gyre::runtime& rt) {
    if (mode == "serve") return serve(rt, compresses);
    if (mode == "autobahn") return run_cases(words[1]);
    return uses_callbacks ? echo_by_callbacks(words[1], options_for(compresses))
                          : echo_to(words[1], options_for(compresses), true);
  });
}
