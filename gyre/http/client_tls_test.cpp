// SPDX-License-Identifier: Apache-2.0
// Tests of the HTTP client over TLS, directly and through a tunnel.
#include <gyre/http/client.hpp>
#include <gyre/http/detail/client_connection.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <tests/support/http_peers.hpp>
#include <tests/support/tls_certificates.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http_client_tls_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::client_options;
using gyre::http::client_request;
using gyre::http::client_response;
using gyre::http::errc;
using gyre::http::method;
using gyre::http::url;
using gyre::http::test::ok;
using gyre::http::test::running_request;
using gyre::net::test::long_text;
using gyre::net::test::peer;
using gyre::tls::tls_context;
using gyre::tls::tls_stream;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

gyre::test::test_authority& authority() {
  static gyre::test::test_authority only;
  return only;
}

tls_context serving(const gyre::test::certificate_request& request = {},
                    gyre::tls::version newest = gyre::tls::version::tls_1_3) {
  const gyre::test::issued made = authority().issue(request);
  return tls_context::server({.certificates = {{.chain = gyre::tls::pem::text(made.certificate),
                                                .key = gyre::tls::pem::text(made.key)}},
                              .max_version = newest});
}

client_options trusting() {
  client_options options;
  options.tls =
      tls_context::client({.system_authorities = false,
                           .authorities = {gyre::tls::pem::text(authority().certificate())}});
  return options;
}

class HttpClientTls : public gyre::http::test::http_client_test {
 protected:
  enum class end { close_notify, close_notify_only, abrupt, held };

  std::string secure_url(std::string_view path = "/") const {
    return "https://" + listener.local_endpoint().to_string() + std::string(path);
  }
  running_request& get_secure(std::string_view path = "/") {
    return send(client_request(method::get, secure_url(path)));
  }
  void serve(tls_context context, std::vector<std::string> answers, end how = end::close_notify,
             bool tunnel = false) {
    gyre::spawn(virtual_time.loop, serve_one(std::move(context), std::move(answers), how, tunnel),
                {.on_error = [](const std::exception_ptr&) {}});
  }
  // Tells after each answer of a connection whether it has left a session to others, who take it.
  task<> read_twice(std::vector<bool>& had_session, std::string& received) {
    auto connecting = gyre::tls::connect(listener.local_endpoint().to_string(), trusting().tls);
    tls_stream connected = co_await std::move(connecting);
    const auto newest = std::make_shared<gyre::tls::session>();
    gyre::http::detail::client_connection connection(std::move(connected), newest);
    const gyre::http::detail::request_clock clock(virtual_time.loop, 0s, "GET /");
    const gyre::steady_time expiry = gyre::steady_time::max();
    const std::string_view request = "GET / HTTP/1.1\r\n\r\n";
    for (int answers = 0; answers != 2; ++answers) {
      auto writing = connection.write_some(std::as_bytes(std::span(request)), clock, expiry, "");
      co_await std::move(writing);
      auto receiving = connection.receive(clock, expiry, "");
      const gyre::io::received bytes = co_await std::move(receiving);
      connection.keep(bytes);
      had_session.push_back(static_cast<bool>(std::exchange(*newest, {})));
      received += connection.input.text();
      connection.input.consume_all();
    }
  }
  // Answers 200 when a head has come, and ends the answer when `size` bytes of a body have.
  task<> serve_while_reading(tls_context context, std::size_t size) {
    auto accepting = listener.accept();
    gyre::net::tcp_stream accepted = co_await std::move(accepting);
    auto shaking = gyre::tls::accept(std::move(accepted), context);
    tls_stream secure = co_await std::move(shaking);
    gyre::io::buffer in;
    auto reading = secure.read_until(in, "\r\n\r\n");
    in.consume(co_await std::move(reading));
    auto beginning = secure.write_all("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    co_await std::move(beginning);
    for (std::size_t came = in.size(); came < size;) {
      auto receiving = secure.receive();
      const gyre::io::received bytes = co_await std::move(receiving);
      if (bytes.size() == 0) co_return;
      came += bytes.size();
    }
    auto ending = secure.write_all("ok");
    co_await std::move(ending);
  }
  // Accepts a connection, and answers as many requests as there are answers.
  task<> serve_one(tls_context context, std::vector<std::string> answers, end how, bool tunnel) {
    auto accepting = listener.accept();
    gyre::net::tcp_stream accepted = co_await std::move(accepting);
    if (tunnel) {
      gyre::io::buffer head;
      co_await accepted.read_until(head, "\r\n\r\n");
      heads.emplace_back(head.text());
      co_await accepted.write_all("HTTP/1.1 200 OK\r\n\r\n");
    }
    auto shaking = gyre::tls::accept(std::move(accepted), context);
    tls_stream secure = co_await std::move(shaking);
    resumed.push_back(secure.info().resumed);
    gyre::io::buffer in;
    for (const std::string& answer : answers) {
      auto reading = secure.read_until(in, "\r\n\r\n");
      const std::size_t size = co_await std::move(reading);
      heads.emplace_back(in.text().substr(0, size));
      in.consume(size);
      auto writing = secure.write_all(answer);
      co_await std::move(writing);
    }
    // While the descriptor has a twin, no FIN is sent.
    gyre::unique_fd twin;
    if (how == end::close_notify_only) twin = gyre::unique_fd(::dup(secure.fd()));
    if (how == end::close_notify_only) secure.close();
    if (how != end::close_notify && how != end::abrupt) co_await hold.wait();
    if (how == end::abrupt) {
      gyre::net::detail::shut_down(secure.fd(), gyre::net::shutdown_side::both);
    }
  }

  gyre::net::tcp_listener listener{virtual_time.loop, gyre::net::test::any_port()};
  std::vector<std::string> heads;
  std::vector<bool> resumed;  // for each connection
  gyre::manual_reset_event hold;
};

TEST_F(HttpClientTls, GetsOverTlsAndKeepsTheConnection) {
  make(trusting());
  const std::string text = long_text(1'000'000);
  serve(serving(), {std::string(ok), "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + text,
                    std::string(ok)});
  EXPECT_EQ(finish(get_secure("/1")).response().body(), "ok");
  EXPECT_EQ(finish(get_secure("/2")).response().body(), text);
  EXPECT_EQ(finish(get_secure("/3")).response().body(), "ok");
  ASSERT_EQ(heads.size(), 3u);
  EXPECT_THAT(heads[2], StartsWith("GET /3 HTTP/1.1\r\nHost: 127.0.0.1"));
}

TEST_F(HttpClientTls, RefusesServersThatItDoesNotTrust) {
  make();
  serve(serving(), {std::string(ok)});
  running_request& request = get_secure();
  EXPECT_EQ(finish(request).error(), std::errc::permission_denied);
  EXPECT_EQ(&request.error().category(), &gyre::tls::tls_category());
  EXPECT_THAT(request.message(), HasSubstr("GET " + secure_url()));
  EXPECT_TRUE(heads.empty());
}

TEST_F(HttpClientTls, RefusesServersOfAnotherName) {
  make(trusting());
  serve(serving({.alternative_names = "DNS:other.test"}), {std::string(ok)});
  running_request& request = get_secure();
  EXPECT_EQ(finish(request).error(), gyre::tls::errc::certificate_wrong_host);
  EXPECT_THAT(request.message(), HasSubstr("other.test"));
}

TEST_F(HttpClientTls, AContextOfAServerIsRefused) {
  client_options options;
  options.tls = serving();
  make(std::move(options));
  EXPECT_EQ(finish(get_secure()).error(), errc::needs_tls);
}

TEST_F(HttpClientTls, AServerWithoutAHandshakeIsGivenUp) {
  client_options options = trusting();
  options.timeouts.handshake = 5s;
  make(std::move(options));
  running_request& request =
      send(client_request(method::get, "https://" + server.authority() + "/"));
  peer& at = accept();
  virtual_time.settle();
  virtual_time.advance(6s);
  EXPECT_EQ(finish(request).error(), errc::timed_out);
  EXPECT_THAT(request.message(), HasSubstr("TLS handshake"));
  EXPECT_TRUE(ends(at));
}

TEST_F(HttpClientTls, AServerThatChoosesAnotherProtocolGetsNoRequest) {
  for (const std::string& chosen : {std::string("h2"), std::string("http/1.1")}) {
    const gyre::test::issued made = authority().issue({});
    client_options options;
    options.tls =
        tls_context::client({.system_authorities = false,
                             .authorities = {gyre::tls::pem::text(authority().certificate())},
                             .application_protocols = {"h2", "http/1.1"}});
    options.http2.enabled = false;
    make(std::move(options));
    serve(tls_context::server({.certificates = {{.chain = gyre::tls::pem::text(made.certificate),
                                                 .key = gyre::tls::pem::text(made.key)}},
                               .application_protocols = {chosen}}),
          {std::string(ok)});
    running_request& request = finish(get_secure());
    if (chosen == "h2") {
      EXPECT_EQ(request.error(), gyre::tls::errc::no_shared_application);
      EXPECT_THAT(request.message(), AllOf(HasSubstr(secure_url()), HasSubstr("h2")));
      EXPECT_TRUE(heads.empty());
    } else {
      EXPECT_EQ(request.response().body(), "ok");
    }
    EXPECT_EQ(client->metrics().open, chosen == "h2" ? 0u : 1u);
  }
}

TEST_F(HttpClientTls, ABodyThatEndsWithoutCloseNotifyIsTruncated) {
  make(trusting());
  serve(serving(), {"HTTP/1.1 200 OK\r\n\r\nall of it"}, end::close_notify);
  EXPECT_EQ(finish(get_secure()).response().body(), "all of it");
  serve(serving(), {"HTTP/1.1 200 OK\r\n\r\na part"}, end::abrupt);
  EXPECT_EQ(finish(get_secure()).error(), gyre::tls::errc::truncated);
}

TEST_F(HttpClientTls, RepeatsARequestThatMetAClosedConnection) {
  make(trusting());
  serve(serving(), {std::string(ok), ""}, end::abrupt);
  EXPECT_EQ(finish(get_secure()).response().body(), "ok");
  serve(serving(), {std::string(ok)});
  EXPECT_EQ(finish(get_secure()).response().body(), "ok");
  EXPECT_EQ(client->metrics().retries, 1u);
  EXPECT_EQ(heads.size(), 3u);
}

TEST_F(HttpClientTls, SendsNoRequestBehindACloseNotifyThatCameWithTheAnswer) {
  make(trusting());
  serve(serving(), {std::string(ok)}, end::close_notify_only);
  EXPECT_EQ(finish(get_secure()).response().body(), "ok");
  serve(serving(), {std::string(ok)});
  // A POST is not repeated.
  client_request request(method::post, secure_url());
  request.set_body("text/plain", "x");
  EXPECT_EQ(finish(send(std::move(request))).response().body(), "ok");
  EXPECT_EQ(client->metrics().retries, 0u);
  hold.set();
  virtual_time.settle();
}

TEST_F(HttpClientTls, ARedirectLeadsToHttpOnlyIfAllowed) {
  make(trusting());
  const std::string leads =
      "HTTP/1.1 302 Found\r\nLocation: " + server.url() + "\r\nContent-Length: 0\r\n\r\n";
  serve(serving(), {leads});
  EXPECT_EQ(finish(get_secure()).error(), errc::bad_redirect);
  client_options options = trusting();
  options.allow_insecure_redirects = true;
  make(std::move(options));
  serve(serving(), {leads});
  running_request& request = get_secure();
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  EXPECT_EQ(finish(request).response().url().scheme(), "http");
}

TEST_F(HttpClientTls, ATunnelLeadsThroughAProxy) {
  client_options options = trusting();
  options.proxy.https =
      url::parse("http://me:secret@" + listener.local_endpoint().to_string()).value();
  make(std::move(options));
  serve(serving(), {std::string(ok)}, end::close_notify, true);
  running_request& request = send(client_request(method::get, "https://localhost:4433/a"));
  EXPECT_EQ(finish(request).response().body(), "ok");
  ASSERT_EQ(heads.size(), 2u);
  EXPECT_EQ(heads[0],
            "CONNECT localhost:4433 HTTP/1.1\r\nHost: localhost:4433\r\n"
            "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n");
  EXPECT_THAT(heads[1], StartsWith("GET /a HTTP/1.1\r\nHost: localhost:4433\r\n"));
}

TEST_F(HttpClientTls, NewConnectionsResumeTheSessionOfTheirHost) {
  for (const auto version : {gyre::tls::version::tls_1_2, gyre::tls::version::tls_1_3}) {
    resumed.clear();
    make(trusting());
    const tls_context context = serving({}, version);
    for (int i = 0; i < 3; ++i) {
      serve(context, {std::string(ok)});
      EXPECT_EQ(finish(get_secure()).response().body(), "ok");
    }
    EXPECT_EQ(resumed, (std::vector{false, true, true}));
    serve(context, {std::string(ok)});
    const std::string port = std::to_string(listener.local_endpoint().port());
    running_request& other = send(client_request(method::get, "https://localhost:" + port));
    EXPECT_EQ(finish(other).response().body(), "ok");
    EXPECT_FALSE(resumed.back()) << "another name";
  }
}

TEST_F(HttpClientTls, AConnectionOffersASessionOnce) {
  serve(serving(), {"one", "two"});
  std::vector<bool> had_session;
  std::string received;
  gyre::spawn(virtual_time.loop, read_twice(had_session, received));
  virtual_time.turn_until([&] { return received == "onetwo"; });
  EXPECT_EQ(had_session, (std::vector{true, false}));
}

TEST_F(HttpClientTls, ASessionIsForgottenWhenAHandshakeFails) {
  make(trusting());
  const tls_context context = serving();
  serve(context, {std::string(ok)});
  EXPECT_EQ(finish(get_secure()).response().body(), "ok");
  serve(serving({.alternative_names = "DNS:other.test"}), {std::string(ok)});
  EXPECT_EQ(finish(get_secure()).error(), gyre::tls::errc::certificate_wrong_host);
  serve(context, {std::string(ok)});
  EXPECT_EQ(finish(get_secure()).response().body(), "ok");
  EXPECT_EQ(resumed, (std::vector{false, false}));
}

TEST_F(HttpClientTls, ASessionEndsWithTheReloadOfTheContext) {
  client_options options = trusting();
  const tls_context own = options.tls;
  make(std::move(options));
  const tls_context context = serving();
  for (int i = 0; i < 2; ++i) {
    serve(context, {std::string(ok)});
    EXPECT_EQ(finish(get_secure()).response().body(), "ok");
    own.reload();
  }
  EXPECT_EQ(resumed, (std::vector{false, false}));
}

TEST_F(HttpClientTls, AServerMayAnswerWhileItReads) {
  make(trusting());
  const std::string text = long_text(std::size_t{4} << 20);
  gyre::spawn(virtual_time.loop, serve_while_reading(serving(), text.size()),
              {.on_error = [](const std::exception_ptr&) {}});
  client_request request(method::post, secure_url());
  request.set_body("text/plain", text);
  running_request& sending = send(std::move(request));
  EXPECT_EQ(finish(sending).response().body(), "ok");
  EXPECT_TRUE(sending.response().is_request_complete());
}

TEST_F(HttpClientTls, ALargeBodyMeetsAnEarlyAnswer) {
  make(trusting());
  serve(serving(), {"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"}, end::held);
  client_request request(method::post, secure_url());
  request.set_body("text/plain", std::string(16 << 20, 'x'));
  const gyre::http::status got = finish(send(std::move(request))).response().status();
  EXPECT_EQ(got, gyre::http::status::content_too_large);
  EXPECT_EQ(client->metrics().open, 0u);
  hold.set();
  virtual_time.settle();
}

}  // namespace
}  // namespace http_client_tls_test
