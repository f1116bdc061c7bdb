// SPDX-License-Identifier: Apache-2.0
// A chat room for browsers, by WebSocket: one page, and a loop on each processor. A page that loses
// its connection connects again, gets the lines that it has missed, and sends again those that may
// not have arrived; the room drops lines that it has. So no line is lost or shown twice, as long as
// the room remembers it. A guest that reads too slowly is disconnected, and connects again.
//
//     web_chat [ADDRESS:PORT]
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/prepared_message.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/websocket_broadcast.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_any.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iostream>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http = gyre::http;

// A guest sends "KEY<tab>TEXT", and all guests get "NUMBER<tab>KEY<tab>NAME<tab>TEXT".
constexpr std::string_view page = R"page(<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Chat</title>
<style>
  body { font: 1rem/1.5 sans-serif; max-width: 40rem; margin: auto; padding: 1rem; }
  ol { list-style: none; padding: 0; overflow-wrap: anywhere; }
  b::after { content: ": "; }
  form { display: flex; gap: .5rem; }
  form[hidden] { display: none; }
  input { flex: 1; font: inherit; }
</style>
<h1>Chat</h1>
<form id="join"><input id="name" maxlength="20" placeholder="Your name" required autofocus>
  <button>Join</button></form>
<p id="state" role="status"></p>
<ol id="lines" aria-live="polite"></ol>
<form id="say" hidden><input id="text" maxlength="1000" placeholder="Message" required
  autocomplete="off"><button>Send</button></form>
<script>
  const find = (id) => document.getElementById(id);
  const session = crypto.getRandomValues(new Uint32Array(2)).join("-");
  const unconfirmed = new Map();  // the texts of own lines by key, until they come back
  let socket, timer, last = 0, count = 0, delay = 500;

  function show(event) {
    const [number, key, name, ...text] = event.data.split("\t");
    unconfirmed.delete(key);
    if (Number(number) <= last) return;  // it came among the missed lines as well
    last = Number(number);
    const author = document.createElement("b");
    author.textContent = name;
    const line = document.createElement("li");
    line.append(author, text.join("\t"));
    find("lines").append(line);
    line.scrollIntoView();
  }

  function connect() {
    clearTimeout(timer);
    const url = new URL("chat", location);
    url.protocol = url.protocol.replace("http", "ws");
    url.search = new URLSearchParams({name: find("name").value, after: last});
    socket = new WebSocket(url);
    socket.onmessage = show;
    socket.onopen = () => {
      delay = 500;
      find("state").textContent = "connected";
      for (const [key, text] of unconfirmed) socket.send(key + "\t" + text);
    };
    socket.onclose = () => {
      find("state").textContent = "connecting again";
      timer = setTimeout(connect, delay * (.5 + Math.random()));
      delay = Math.min(2 * delay, 10000);
    };
  }

  find("join").onsubmit = (event) => {
    event.preventDefault();
    find("join").hidden = true;
    find("say").hidden = false;
    find("text").focus();
    connect();
  };
  find("say").onsubmit = (event) => {
    event.preventDefault();
    const key = session + "-" + ++count;
    unconfirmed.set(key, find("text").value);
    if (socket.readyState == WebSocket.OPEN) socket.send(key + "\t" + find("text").value);
    find("text").value = "";
  };
  addEventListener("online", () => { if (socket?.readyState == WebSocket.CLOSED) connect(); });
</script>
</html>
)page";

// The guests of all loops, and the newest lines.
class chat_room {
 public:
  gyre::task<> serve(http::websocket& guest, std::string name, std::uint64_t last_seen) {
    // Subscribes before it reads the missed lines, so that none is between the two.
    auto forwarding = news_.forward_to(guest);
    const std::vector<http::prepared_message> missed = lines_after(last_seen);
    co_await guest.send_all(missed);
    auto ending = gyre::when_any(listen_to(guest, name), std::move(forwarding));
    co_await std::move(ending);
  }

 private:
  struct line {
    std::uint64_t number;
    std::string key;
    http::prepared_message message;
  };

  gyre::task<> listen_to(http::websocket& guest, const std::string& name) {
    while (const auto message = co_await guest.receive()) {
      const std::string_view text = message->text();
      const std::size_t tab = text.find('\t');
      if (!message->is_text() || tab == 0 || tab > max_key) {
        co_await guest.close(http::close_code::policy_violation, "send a key, a tab and a text");
        co_return;
      }
      say(name, text.substr(0, tab), text.substr(tab + 1));
    }
  }

  // The lock keeps the order of numbers and that of sending alike.
  void say(const std::string& name, std::string_view key, std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(lines_, key, &line::key) != lines_.end()) return;
    ++last_number_;
    std::string encoded = std::to_string(last_number_);
    encoded.append("\t").append(key).append("\t").append(name).append("\t").append(text);
    lines_.push_back({.number = last_number_,
                      .key = std::string(key),
                      .message = http::prepared_message::text(encoded)});
    if (lines_.size() > max_lines) lines_.pop_front();
    news_.send(lines_.back().message);
  }

  std::vector<http::prepared_message> lines_after(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    std::vector<http::prepared_message> found;
    for (const line& each : lines_) {
      if (each.number > number) found.push_back(each.message);
    }
    return found;
  }

  static constexpr std::size_t max_lines = 200;
  static constexpr std::size_t max_key = 64;

  // Begins above the numbers of an earlier run, so that pages which stayed open show new lines.
  std::uint64_t last_number_ = static_cast<std::uint64_t>(
      std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now())
          .time_since_epoch()
          .count());
  std::deque<line> lines_;
  std::mutex mutex_;
  http::websocket_broadcast news_;
};

http::response join(chat_room& room, const http::request& request) {
  auto name = request.query<std::string>("name");
  const auto last_seen = request.query<std::uint64_t>("after", 0);
  std::ranges::replace(name, '\t', ' ');
  if (name.empty() || name.size() > 80) return http::status::bad_request;
  return http::accept_websocket(request,
                                [&room, name, last_seen](http::websocket& guest) {
                                  return room.serve(guest, name, last_seen);
                                },
                                {.limits = {.message = 8 << 10}});
}

gyre::task<> serve(gyre::runtime& rt, gyre::net::endpoint address) {
  chat_room room;
  http::server server(rt.loops(), address);
  server.get("/", [](http::request&) {
    return http::response::borrowed("text/html; charset=utf-8", page);
  });
  server.get("/chat", [&room](http::request& request) { return join(room, request); });
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;

  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  co_await rt.drained();
}

int main(int argc, char** argv) {
  const char* address = argc > 1 ? argv[1] : "[::]:8080";
  return gyre::runtime::main([&](gyre::runtime& rt) { return serve(rt, address); });
}
