// SPDX-License-Identifier: Apache-2.0
// Tests of WebSockets that call handlers, against WebSockets of coroutines, over each transport.
#include <gyre/http/websocket_connection.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/http/client_options.hpp>
#include <gyre/http/connect_websocket.hpp>
#include <gyre/http/detail/has_http2.hpp>
#include <gyre/http/server_options.hpp>
#include <gyre/http/websocket_broadcast.hpp>
#include <gyre/http/websocket_fixture_test_support.hpp>
#include <gyre/io/error.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace http_websocket_connection_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::close_code;
using gyre::http::connect_websocket;
using gyre::http::prepared_message;
using gyre::http::websocket;
using gyre::http::websocket_broadcast;
using gyre::http::websocket_connection;
using gyre::http::websocket_errc;
using gyre::http::websocket_handlers;
using gyre::http::websocket_message;
using gyre::http::websocket_options;
using testing::ElementsAre;

// The transport of the server's socket.
enum class transport : std::uint8_t {
  connection,  // the TCP connection, which HTTP/1.1 has left
  exchange,    // that of a request of HTTP/1.1 that must stay
  stream,      // of HTTP/2
};

class HttpWebsocketConnection : public gyre::http::test::websocket_fixture,
                                public testing::WithParamInterface<transport> {
 protected:
  // Returns handlers that write their calls to `log`.
  websocket_handlers logging() {
    websocket_handlers handlers;
    handlers.on_open([this](websocket_connection&) { log.emplace_back("open"); });
    handlers.on_message([this](websocket_connection&, websocket_message message) {
      log.emplace_back(message.text());
    });
    handlers.on_close([this](websocket_connection&, std::error_code reason) { note_end(reason); });
    return handlers;
  }
  void note_end(std::error_code reason) {
    end = reason;
    log.emplace_back(reason ? "failed" : "closed");
    ended.set();
  }
  // Serves each client by handlers that `make` returns.
  void serve_by(std::function<websocket_handlers()> make, websocket_options options = {}) {
    gyre::http::server_options serving;
    if (GetParam() == transport::exchange) serving.request_ids.field = "X-Request-Id";
    serve_responses(
        [make = std::move(make), options](const gyre::http::request& request) {
          return gyre::http::accept_websocket(request, make(), options);
        },
        serving);
  }
  // Opens a socket of a coroutine.
  task<websocket> connect() {
    const websocket_options options = over_transport({});
    const gyre::http::client_options connecting = knowing_http2();
    return connect_websocket(url(), options, connecting);
  }
  // Opens a socket of handlers, and runs it.
  task<> connect(websocket_handlers handlers, websocket_options options = {}) {
    return connect_websocket(url(), std::move(handlers), over_transport(std::move(options)),
                             knowing_http2());
  }

  std::vector<std::string> log;
  std::error_code end;
  gyre::manual_reset_event ended;

 private:
  static websocket_options over_transport(websocket_options options) {
    using gyre::http::websocket_http2;
    options.http2 =
        GetParam() == transport::stream ? websocket_http2::always : websocket_http2::never;
    return options;
  }
  static gyre::http::client_options knowing_http2() {
    gyre::http::client_options options;
    options.http2.prior_knowledge = true;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(, HttpWebsocketConnection,
                         testing::ValuesIn(gyre::http::detail::has_http2
                                               ? std::vector{transport::connection,
                                                             transport::exchange, transport::stream}
                                               : std::vector{transport::connection,
                                                             transport::exchange}),
                         [](const auto& which) {
                           switch (which.param) {
                             case transport::connection: return "OnAConnection";
                             case transport::exchange: return "OnAnExchange";
                             case transport::stream: break;
                           }
                           return "OnAStream";
                         });

websocket_handlers echo_handlers() {
  websocket_handlers handlers;
  handlers.on_message(
      [](websocket_connection& socket, websocket_message message) { socket.send(message); });
  return handlers;
}

task<> drop_messages(websocket& socket) {
  while (auto message = co_await socket.receive()) {
  }
}

task<> ignoring_errors(task<> work) {
  auto working = gyre::as_result(std::move(work));
  static_cast<void>(co_await std::move(working));
}

TEST_P(HttpWebsocketConnection, CallsItsHandlersInOrder) {
  serve_by([this] {
    websocket_handlers handlers = logging();
    handlers.on_open([this](websocket_connection& socket) {
      log.emplace_back("open");
      EXPECT_TRUE(socket.is_open());
      EXPECT_EQ(&socket.loop(), &loop);
      EXPECT_TRUE(socket.send_text("welcome"));
    });
    handlers.on_close([this](websocket_connection& socket, std::error_code reason) {
      EXPECT_FALSE(socket.is_open());
      EXPECT_FALSE(socket.send_text("late"));
      EXPECT_EQ(socket.close_status(), close_code::normal);
      EXPECT_EQ(socket.close_reason(), "done");
      note_end(reason);
    });
    return handlers;
  });
  const auto talk = [&]() -> task<> {
    auto connecting = connect();
    websocket socket = co_await std::move(connecting);
    auto message = co_await socket.receive();
    EXPECT_EQ(message->text(), "welcome");
    co_await socket.send_text("one");
    co_await socket.send_text("two");
    co_await socket.close(close_code::normal, "done");
    co_await ended.wait();
  };
  run(talk());
  EXPECT_THAT(log, ElementsAre("open", "one", "two", "closed"));
  EXPECT_EQ(errors, 0);
}

TEST_P(HttpWebsocketConnection, EchoesMessagesOfAllSizesBothWays) {
  for (const bool compresses : {false, true}) {
    const websocket_options options{.compression = {.enabled = compresses}};
    serve_by(echo_handlers, options);
    std::vector<std::string> sent;
    for (const std::size_t size :
         std::initializer_list<std::size_t>{0, 1, 125, 126, 65535, 65536, 1000000, 7}) {
      sent.emplace_back(size, 'x');
    }
    std::vector<std::string> received;
    websocket_handlers handlers;
    handlers.on_open([&](websocket_connection& socket) {
      EXPECT_EQ(socket.is_compressed(), compresses);
      socket.send_text(sent[0]);
    });
    handlers.on_message([&](websocket_connection& socket, websocket_message message) {
      EXPECT_EQ(message.is_text(), received.size() % 2 == 0);
      received.emplace_back(message.text());
      const std::size_t next = received.size();
      if (next == sent.size()) {
        socket.close(static_cast<close_code>(4000), "enough");
      } else if (next % 2 == 1) {
        socket.send_binary(std::as_bytes(std::span(sent[next])));
      } else {
        socket.send_text(sent[next]);
      }
    });
    handlers.on_close([&](websocket_connection& socket, std::error_code reason) {
      EXPECT_EQ(socket.close_status(), static_cast<close_code>(4000));
      note_end(reason);
    });
    run(connect(std::move(handlers), options));
    EXPECT_EQ(received, sent);
    EXPECT_FALSE(end);
    TearDown();
    on.reset();
  }
  EXPECT_EQ(errors, 0);
}

TEST_P(HttpWebsocketConnection, SendsInTheOrderOfTheCallsAndReportsTheEndOnce) {
  int completions = 0;
  serve_by([&] {
    websocket_handlers handlers;
    handlers.on_open([](websocket_connection& socket) {
      const auto prepared = prepared_message::text("prepared");
      for (int i = 0; i < 100; ++i) {
        socket.send_text(std::to_string(i));
        socket.send(prepared);
      }
    });
    handlers.on_write_complete([&](websocket_connection& socket) {
      ++completions;
      EXPECT_EQ(socket.pending_output(), 0u);
      if (completions == 1) socket.send_text("last");
      if (completions == 2) socket.close();
    });
    return handlers;
  });
  const auto talk = [&]() -> task<> {
    auto connecting = connect();
    websocket socket = co_await std::move(connecting);
    std::vector<std::string> messages;
    while (auto message = co_await socket.receive()) messages.emplace_back(message->text());
    EXPECT_EQ(messages.size(), 201u);
    for (std::size_t i = 0; i < 200 && i < messages.size(); ++i) {
      EXPECT_EQ(messages[i], i % 2 == 0 ? std::to_string(i / 2) : "prepared");
    }
    EXPECT_EQ(messages.back(), "last");
  };
  run(talk());
  EXPECT_EQ(completions, 2);
}

TEST_P(HttpWebsocketConnection, AClientOfHandlersMayFailToConnect) {
  serve_responses([](const gyre::http::request&) { return gyre::http::status::not_found; });
  const auto talk = [&]() -> task<> {
    auto connecting = gyre::as_result(connect(logging()));
    const auto result = co_await std::move(connecting);
    EXPECT_THROW(std::rethrow_exception(result.error()), gyre::http::websocket_refused);
  };
  run(talk());
  EXPECT_TRUE(log.empty());
}

TEST_P(HttpWebsocketConnection, AnExceptionOfAHandlerClosesTheSocket) {
  enum class thrower { open, message, write_complete, close };
  for (const thrower who :
       {thrower::open, thrower::message, thrower::write_complete, thrower::close}) {
    log.clear();
    ended.reset();
    const auto fail_if = [who](thrower handler) {
      if (who == handler) throw std::runtime_error("a fault of the program");
    };
    const auto throwing = [&] {
      websocket_handlers handlers;
      handlers.on_open([&, fail_if](websocket_connection& socket) {
        socket.send_text("welcome");
        fail_if(thrower::open);
      });
      handlers.on_message(
          [fail_if](websocket_connection&, websocket_message) { fail_if(thrower::message); });
      handlers.on_write_complete(
          [fail_if](websocket_connection&) { fail_if(thrower::write_complete); });
      handlers.on_close([&, fail_if](websocket_connection&, std::error_code reason) {
        note_end(reason);
        fail_if(thrower::close);
      });
      return handlers;
    };
    // The handlers serve a client, which gets the code of an error, and on_error() is called.
    errors = 0;
    serve_by(throwing);
    const auto talk = [&]() -> task<> {
      auto connecting = connect();
      websocket socket = co_await std::move(connecting);
      // A stream of HTTP/2 may have ended already, whose messages can still be received.
      auto sending = gyre::as_result(socket.send_text("hello"));
      const auto sent = co_await std::move(sending);
      EXPECT_TRUE(sent || who == thrower::open || who == thrower::write_complete);
      if (who == thrower::close) co_await socket.close();
      co_await drop_messages(socket);
      EXPECT_EQ(socket.close_status(),
                who == thrower::close ? close_code::normal : close_code::internal_error);
      co_await ended.wait();
      // The error is reported only while the client is there.
      while (errors == 0) co_await gyre::sleep_for(1ms);
    };
    run(talk());
    TearDown();
    on.reset();
    EXPECT_EQ(errors, 1);
    EXPECT_EQ(end, who == thrower::close ? std::error_code() : gyre::io::errc::aborted);
    EXPECT_EQ(log.size(), 1u);
    errors = 0;
    // The handlers are those of a client, whose task throws the exception.
    serve([&](websocket& socket) -> task<> {
      co_await socket.send_text("hello");
      if (who == thrower::close) co_await socket.close();
      co_await drop_messages(socket);
      EXPECT_EQ(socket.close_status(),
                who == thrower::close ? close_code::normal : close_code::internal_error);
    });
    const auto run_client = [&]() -> task<> {
      auto connecting = gyre::as_result(connect(throwing()));
      const auto result = co_await std::move(connecting);
      EXPECT_THROW(std::rethrow_exception(result.error()), std::runtime_error);
    };
    run(run_client());
    TearDown();
    on.reset();
    EXPECT_EQ(errors, 0);
    EXPECT_EQ(log.size(), 2u);
  }
}

TEST_P(HttpWebsocketConnection, LimitsTheOutputThatWaits) {
  constexpr std::size_t limit = 100'000;
  const std::string text(10'000, 'x');
  std::size_t accepted = 0;
  serve_by(
      [&] {
        websocket_handlers handlers = logging();
        handlers.on_open([&](websocket_connection& socket) {
          while (socket.send_text(text)) {
            ++accepted;
            EXPECT_LE(socket.pending_output(), limit);
          }
          EXPECT_FALSE(socket.is_open());
          EXPECT_FALSE(socket.send_text(""));
        });
        return handlers;
      },
      {.limits = {.output = limit}});
  const auto talk = [&]() -> task<> {
    auto connecting = connect();
    websocket socket = co_await std::move(connecting);
    co_await drop_messages(socket);
    EXPECT_EQ(socket.close_status(), close_code::policy_violation);
    co_await ended.wait();
  };
  run(talk());
  EXPECT_GE(accepted, 9u);  // of 10,004 bytes with their headers
  EXPECT_EQ(end, gyre::io::errc::output_limit);
  EXPECT_EQ(errors, 0);
}

TEST_P(HttpWebsocketConnection, SendsOneMessageAboveTheLimit) {
  const std::string text(100'000, 'x');
  serve_by(
      [&] {
        websocket_handlers handlers;
        handlers.on_open([&](websocket_connection& socket) {
          EXPECT_TRUE(socket.send_text(text));
          socket.close();
        });
        return handlers;
      },
      {.limits = {.output = 1000}});
  const auto talk = [&]() -> task<> {
    auto connecting = connect();
    websocket socket = co_await std::move(connecting);
    const auto message = co_await socket.receive();
    EXPECT_EQ(message->text(), text);
    co_await drop_messages(socket);
    EXPECT_EQ(socket.close_status(), close_code::normal);
  };
  run(talk());
}

TEST_P(HttpWebsocketConnection, AReplyAboveTheLimitMayFollowOneThatWaits) {
  const std::string text(100'000, 'x');
  serve_by(
      [&] {
        websocket_handlers handlers;
        handlers.on_message([&](websocket_connection& socket, websocket_message message) {
          EXPECT_TRUE(socket.send(message));
          EXPECT_GT(socket.pending_output(), 0u);
          EXPECT_TRUE(socket.send_text(text));
        });
        return handlers;
      },
      {.limits = {.output = 1000}});
  std::vector<std::string> received;
  websocket_handlers handlers = logging();
  handlers.on_open([](websocket_connection& socket) { socket.send_text("a request"); });
  handlers.on_message([&](websocket_connection& socket, websocket_message message) {
    received.emplace_back(message.text());
    if (received.size() == 2) socket.close();
  });
  run(connect(std::move(handlers)));
  EXPECT_THAT(received, ElementsAre("a request", text));
  EXPECT_FALSE(end);
}

TEST_P(HttpWebsocketConnection, APeerThatDoesNotReadHasToWait) {
  constexpr std::size_t limit = 100'000;
  constexpr int count = 2000;
  const std::string text(20'000, 'x');
  std::size_t most = 0;
  serve_by(
      [&] {
        websocket_handlers handlers;
        handlers.on_message([&](websocket_connection& socket, websocket_message message) {
          EXPECT_TRUE(socket.send(message));
          most = std::max(most, socket.pending_output());
        });
        return handlers;
      },
      {.limits = {.output = limit}});
  const auto talk = [&]() -> task<> {
    auto connecting = connect();
    websocket socket = co_await std::move(connecting);
    int sent = 0;
    const auto send_all = [&]() -> task<> {
      for (; sent < count; ++sent) co_await socket.send_text(text);
    };
    const auto receive_all = [&]() -> task<> {
      // The sender stops after some messages while the other end reads nothing.
      for (int before = -1; before != sent; co_await gyre::sleep_for(100ms)) before = sent;
      for (int i = 0; i < count; ++i) {
        const auto message = co_await socket.receive();
        EXPECT_EQ(message->bytes.size(), text.size());
      }
    };
    auto both = gyre::when_all(send_all(), receive_all());
    co_await std::move(both);
    co_await socket.close();
  };
  run(talk());
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, limit);
}

TEST_P(HttpWebsocketConnection, PausesReceiving) {
  websocket_connection* paused = nullptr;
  gyre::manual_reset_event has_message;
  serve_by([&] {
    websocket_handlers handlers = logging();
    handlers.on_message([&](websocket_connection& socket, websocket_message message) {
      log.emplace_back(message.text());
      socket.pause_reading();
      paused = &socket;
      has_message.set();
    });
    return handlers;
  });
  const auto talk = [&]() -> task<> {
    auto connecting = connect();
    websocket socket = co_await std::move(connecting);
    for (const char* each : {"one", "two", "three"}) co_await socket.send_text(each);
    for (std::size_t i = 1; i <= 3; ++i) {
      co_await has_message.wait();
      has_message.reset();
      for (int turn = 0; turn < 10; ++turn) co_await gyre::sleep_for(1ms);
      EXPECT_EQ(log.size(), 1 + i);
      if (i < 3) paused->resume_reading();
    }
    // close() ends the pause, so that the closing handshake is completed.
    paused->close(static_cast<close_code>(4001), "paused");
    paused->close();
    EXPECT_FALSE(paused->send_text("late"));
    co_await socket.send_text("dropped");
    co_await drop_messages(socket);
    EXPECT_EQ(socket.close_status(), static_cast<close_code>(4001));
    co_await ended.wait();
  };
  run(talk());
  EXPECT_THAT(log, ElementsAre("open", "one", "two", "three", "closed"));
}

TEST_P(HttpWebsocketConnection, ChecksItsArguments) {
  int refused = 0;
  serve_by([&] {
    websocket_handlers handlers;
    handlers.on_open([&](websocket_connection& socket) {
      const auto expect_invalid = [&](auto call) {
        try {
          call();
        } catch (const std::invalid_argument&) {
          ++refused;
        }
      };
      expect_invalid([&] { socket.send_text("\xff"); });
      expect_invalid([&] { socket.close(close_code::none); });
      expect_invalid([&] { socket.close(close_code::normal, std::string(124, 'x')); });
      socket.close();
    });
    return handlers;
  });
  const auto talk = [&]() -> task<> {
    auto connecting = connect();
    websocket socket = co_await std::move(connecting);
    co_await drop_messages(socket);
    EXPECT_EQ(socket.close_status(), close_code::normal);
  };
  run(talk());
  EXPECT_EQ(refused, 3);
}

TEST_P(HttpWebsocketConnection, SubscribesToABroadcast) {
  websocket_broadcast news;
  serve_by([&] {
    websocket_handlers handlers = logging();
    handlers.on_open([&](websocket_connection& socket) { socket.subscribe_to(news); });
    return handlers;
  });
  const auto talk = [&]() -> task<> {
    auto connecting = connect();
    websocket socket = co_await std::move(connecting);
    while (news.metrics().subscribers == 0) co_await gyre::sleep_for(1ms);
    news.send_text("score 3:1");
    const auto message = co_await socket.receive();
    EXPECT_EQ(message->text(), "score 3:1");
    co_await socket.close();
    co_await ended.wait();
  };
  run(talk());
  EXPECT_FALSE(end);
  EXPECT_EQ(news.metrics().subscribers, 0u);
}

TEST_P(HttpWebsocketConnection, NoticesThatItsPeerLeaves) {
  serve_by([this] { return logging(); });
  const auto talk = [&]() -> task<> {
    {
      auto connecting = connect();
      websocket socket = co_await std::move(connecting);
      co_await socket.send_text("hello");
      while (log.size() != 2) co_await gyre::sleep_for(1ms);
    }  // destroyed without a Close frame
    co_await ended.wait();
  };
  run(talk());
  EXPECT_EQ(end, websocket_errc::ended);
  EXPECT_EQ(errors, 0);
}

TEST_P(HttpWebsocketConnection, GoesAwayWhenTheServerStops) {
  websocket_connection* opened = nullptr;
  serve_by([&] {
    websocket_handlers handlers = logging();
    handlers.on_open([&](websocket_connection& socket) { opened = &socket; });
    return handlers;
  });
  const auto talk = [&]() -> task<> {
    auto connecting = connect();
    websocket socket = co_await std::move(connecting);
    while (opened == nullptr) co_await gyre::sleep_for(1ms);
    on->stop(1h);
    while (opened->is_open()) co_await gyre::sleep_for(1ms);
    EXPECT_FALSE(opened->send_text("late"));
    co_await drop_messages(socket);
    EXPECT_EQ(socket.close_status(), close_code::going_away);
    co_await ended.wait();
  };
  run(talk());
  EXPECT_THAT(log, ElementsAre("closed"));
}

TEST_P(HttpWebsocketConnection, GoesAwayWhenItsTaskIsStopped) {
  std::optional<close_code> code;
  serve([&](websocket& socket) -> task<> {
    co_await drop_messages(socket);
    code = socket.close_status();
  });
  gyre::inplace_stop_source stop;
  const auto talk = [&]() -> task<> {
    gyre::spawn(loop, connect(logging()), {.stop = stop.get_token()});
    while (log.empty()) co_await gyre::sleep_for(1ms);
    stop.request_stop();
    co_await ended.wait();
    while (!code) co_await gyre::sleep_for(1ms);
  };
  run(talk());
  EXPECT_EQ(end, websocket_errc::ended);
  EXPECT_EQ(code, close_code::going_away);
}

TEST_P(HttpWebsocketConnection, AHandlerMayDestroyTheServer) {
  enum class destroyer { open, message, write_complete, close };
  for (const destroyer which :
       {destroyer::open, destroyer::message, destroyer::write_complete, destroyer::close}) {
    bool is_destroyed = false;
    const auto destroy_if = [&, which](destroyer handler) {
      if (which != handler) return;
      on.reset();
      is_destroyed = true;
    };
    serve_by([destroy_if] {
      websocket_handlers handlers;
      handlers.on_open([destroy_if](websocket_connection& socket) {
        socket.send_text("welcome");
        destroy_if(destroyer::open);
        socket.send_text("more");
      });
      handlers.on_message([destroy_if](websocket_connection& socket, websocket_message message) {
        destroy_if(destroyer::message);
        socket.send(message);
      });
      handlers.on_write_complete([destroy_if](websocket_connection& socket) {
        destroy_if(destroyer::write_complete);
        socket.resume_reading();
      });
      handlers.on_close(
          [destroy_if](websocket_connection&, std::error_code) { destroy_if(destroyer::close); });
      return handlers;
    });
    const auto talk = [&]() -> task<> {
      auto connecting = connect();
      websocket socket = co_await std::move(connecting);
      co_await socket.send_text("one");
      co_await socket.send_text("two");
      if (which == destroyer::close) co_await socket.close();
      co_await drop_messages(socket);
    };
    const auto talk_to_the_end = [&]() -> task<> {
      auto talking = ignoring_errors(talk());
      co_await std::move(talking);
      while (!is_destroyed) co_await gyre::sleep_for(1ms);
    };
    run(talk_to_the_end());
    EXPECT_FALSE(on);
  }
}

TEST_P(HttpWebsocketConnection, MayEndAtAnyMoment) {
  int open_count = 0;
  int close_count = 0;
  std::mt19937 random(7);
  // The handlers make random calls, all of which are allowed.
  const auto make = [&] {
    websocket_handlers handlers;
    const auto act = [&](websocket_connection& socket) {
      switch (random() % 12) {
        case 0: socket.close(); break;
        case 1: socket.pause_reading(); break;
        case 2: throw std::runtime_error("a fault of the program");
        case 3: socket.send(prepared_message::text("prepared")); break;
        default: socket.send_text(std::string(random() % 50'000, 'x')); break;
      }
    };
    handlers.on_open([&, act](websocket_connection& socket) {
      ++open_count;
      act(socket);
    });
    handlers.on_message([act](websocket_connection& socket, websocket_message) { act(socket); });
    handlers.on_write_complete([act](websocket_connection& socket) { act(socket); });
    handlers.on_close([&](websocket_connection&, std::error_code) { ++close_count; });
    return handlers;
  };
  serve_by(make, {.timeouts = {.close = 10ms}, .compression = {.enabled = true}});
  const auto talk = [&]() -> task<> {
    for (unsigned i = 0; i < 300; ++i) {
      const auto limit = std::chrono::microseconds(random() % 5000);
      const websocket_options options{.timeouts = {.close = 10ms},
                                      .compression = {.enabled = i % 2 == 0}};
      auto limited = gyre::as_result(gyre::with_timeout(connect(make(), options), limit));
      static_cast<void>(co_await std::move(limited));
    }
  };
  run(talk());
  TearDown();
  on.reset();
  EXPECT_GT(open_count, 0);
  EXPECT_EQ(open_count, close_count);
}

}  // namespace
}  // namespace http_websocket_connection_test
