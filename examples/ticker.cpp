// SPDX-License-Identifier: Apache-2.0
// Sends the number of each second to browsers, as server-sent events. A client that connects again
// gets the number after the last one it has seen.
//
//     ticker [ADDRESS:PORT]
#include <gyre/http/event_stream.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <charconv>
#include <chrono>
#include <iostream>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

constexpr std::string_view page = R"(<!DOCTYPE html>
<title>Ticker</title>
<h1 id="tick"></h1>
<script>
  const show = (event) => { document.getElementById("tick").textContent = event.data; };
  new EventSource("/ticks").onmessage = show;
</script>
)";

gyre::task<> send_ticks(gyre::http::event_writer& events, int tick) {
  for (;; ++tick) {
    const std::string number = std::to_string(tick);
    co_await events.send({.data = number, .id = number});
    co_await gyre::sleep_for(1s);
  }
}

int first_tick(const gyre::http::request& request) {
  int last = 0;
  const std::string_view id = gyre::http::last_event_id(request).value_or("0");
  std::from_chars(id.data(), id.data() + id.size(), last);
  return last >= 0 && last < 1'000'000'000 ? last + 1 : 1;
}

gyre::task<> serve(gyre::runtime& rt, gyre::net::endpoint address) {
  gyre::http::server server(rt.loops(), address);
  server.get("/", [](gyre::http::request&) {
    return gyre::http::response::borrowed("text/html; charset=utf-8", page);
  });
  server.get("/ticks", [](gyre::http::request& request) {
    const int first = first_tick(request);
    return gyre::http::event_stream(
        [first](gyre::http::event_writer& events) { return send_ticks(events, first); });
  });
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;

  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  co_await rt.drained();
}

int main(int argc, char** argv) {
  const char* address = argc > 1 ? argv[1] : "[::]:8080";
  return gyre::runtime::main([&](gyre::runtime& rt) { return serve(rt, address); });
}
