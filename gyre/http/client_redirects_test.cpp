// SPDX-License-Identifier: Apache-2.0
// Tests of where the HTTP client goes: redirects, cookies, proxies; and of its callbacks.
#include <gyre/http/client.hpp>
#include <gyre/http/proxy.hpp>
#include <gyre/io/error.hpp>
#include <tests/support/http_peers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>

#include <expected>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace http_client_redirects_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::client_options;
using gyre::http::client_request;
using gyre::http::client_response;
using gyre::http::errc;
using gyre::http::method;
using gyre::http::proxy_settings;
using gyre::http::request_body_writer;
using gyre::http::status;
using gyre::http::url;
using gyre::http::test::ok;
using gyre::http::test::running_request;
using gyre::http::test::scripted_server;
using gyre::net::test::peer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string redirect(int code, std::string_view location, std::string_view more = "") {
  return "HTTP/1.1 " + std::to_string(code) + " Elsewhere\r\nLocation: " + std::string(location) +
         "\r\n" + std::string(more) + "Content-Length: 4\r\n\r\ngone";
}

class HttpClientRedirects : public gyre::http::test::http_client_test {
 protected:
  peer& accept_other() {
    peer* accepted = nullptr;
    virtual_time.turn_until([&] { return (accepted = other.accept()) != nullptr; });
    return *accepted;
  }
  client_request post() {
    client_request request(method::post, server.url("/form"));
    request.set_body("text/plain", "hello");
    return request;
  }
  // The head of the second request, after the first was answered by `answer`.
  std::string head_after(client_request request, std::string_view answer) {
    running_request& sending = send(std::move(request));
    peer& at = accept();
    receive_head(at);
    at.receive();
    at.text.clear();
    at.send(answer);
    const std::string head = receive_head(at);
    at.send(ok);
    finish(sending);
    return head;
  }

  scripted_server other;
};

TEST_F(HttpClientRedirects, FollowsOnTheSameConnection) {
  make();
  running_request& request = get("/a/b?c");
  peer& at = accept();
  receive_head(at);
  at.send(redirect(302, "../d?e"));
  EXPECT_THAT(receive_head(at), StartsWith("GET /d?e HTTP/1.1\r\n"));
  at.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
  EXPECT_EQ(request.response().url().to_string(), server.url("/d?e"));
  EXPECT_EQ(client->metrics().redirects, 1u);
  EXPECT_EQ(client->metrics().requests, 1u);
}

TEST_F(HttpClientRedirects, APostBecomesAGetAsBrowsersDoIt) {
  make();
  for (const int code : {301, 302, 303}) {
    EXPECT_THAT(head_after(post(), redirect(code, "/x")),
                AllOf(StartsWith("GET /x HTTP/1.1\r\n"), Not(HasSubstr("Content-"))));
    client.reset();
    make();
  }
}

TEST_F(HttpClientRedirects, A307And308KeepTheMethodAndTheBody) {
  make();
  for (const int code : {307, 308}) {
    EXPECT_THAT(head_after(post(), redirect(code, "/x")),
                AllOf(StartsWith("POST /x HTTP/1.1\r\n"), HasSubstr("\r\nContent-Length: 5\r\n")));
    client.reset();
    make();
  }
}

TEST_F(HttpClientRedirects, APutIsKeptBut303MakesItAGet) {
  make();
  const auto put = [this] {
    client_request request(method::put, server.url());
    request.set_body("text/plain", "hello");
    return request;
  };
  EXPECT_THAT(head_after(put(), redirect(301, "/x")), StartsWith("PUT /x "));
  client.reset();
  make();
  EXPECT_THAT(head_after(put(), redirect(303, "/x")), StartsWith("GET /x "));
}

TEST_F(HttpClientRedirects, AHeadStaysAHead) {
  make();
  running_request& request = send(client_request(method::head, server.url()));
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 303 See Other\r\nLocation: /x\r\nContent-Length: 4\r\n\r\n");
  EXPECT_THAT(receive_head(at), StartsWith("HEAD /x "));
  at.send("HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_EQ(finish(request).response().status(), status::ok);
}

TEST_F(HttpClientRedirects, SecretsStayAtTheirOrigin) {
  make();
  client_request request(method::get, "http://me:secret@" + server.authority() + "/");
  request.set("Authorization", "Bearer abc").set("Cookie", "a=b").set("X-Mine", "1");
  request.set("Host", "virtual.test");
  running_request& sending = send(std::move(request));
  peer& at = accept();
  EXPECT_THAT(receive_head(at), AllOf(HasSubstr("Bearer abc"), HasSubstr("Cookie: a=b")));
  at.send(redirect(302, "/same"));
  EXPECT_THAT(receive_head(at), AllOf(HasSubstr("Bearer abc"), HasSubstr("Cookie: a=b")));
  at.send(redirect(302, other.url("/x")));
  peer& there = accept_other();
  EXPECT_THAT(receive_head(there), AllOf(Not(HasSubstr("Authorization")), Not(HasSubstr("Cookie")),
                                         HasSubstr("\r\nX-Mine: 1\r\n"),
                                         HasSubstr("\r\nHost: " + other.authority() + "\r\n")));
  there.send(ok);
  EXPECT_EQ(finish(sending).response().body(), "ok");
}

TEST_F(HttpClientRedirects, ALoopEnds) {
  client_options options;
  options.limits.redirects = 3;
  make(std::move(options));
  running_request& request = get();
  peer& at = accept();
  for (int count = 0; count != 4; ++count) {
    receive_head(at);
    at.send(redirect(301, "/"));
  }
  EXPECT_EQ(finish(request).error(), errc::too_many_redirects);
  EXPECT_EQ(client->metrics().redirects, 3u);
}

TEST_F(HttpClientRedirects, RefusesWhereItMustNotGo) {
  make();
  for (const std::string_view location :
       {"ftp://a/", "file:///etc/passwd", "http://a b/", "//", "javascript:alert(1)", "http:/x"}) {
    EXPECT_EQ(answer_get(redirect(302, location)).error(), errc::bad_redirect) << location;
  }
}

TEST_F(HttpClientRedirects, CharactersThatMustBeEncodedAreEncoded) {
  make();
  for (const auto& [location, target] : std::vector<std::pair<std::string, std::string>>{
           {"/a b?c d", "/a%20b?c%20d"},
           {"/x|y[1]\"<>^`{}\\?a|b[]=c", "/x%7Cy%5B1%5D%22%3C%3E%5E%60%7B%7D%5C?a%7Cb%5B%5D=c"},
           {"/m\xc3\xbcnchen", "/m%C3%BCnchen"},
           {"/a\tb", "/a%09b"},
           {"/100%/%4/%zz/%41", "/100%25/%254/%25zz/%41"},
           {server.url("/a b"), "/a%20b"},
           {"//" + server.authority() + "/|", "/%7C"},
           {"a//b c", "/a//b%20c"},
           {"/?to=http://x y/", "/?to=http://x%20y/"},
           {"/\\evil.test/", "/%5Cevil.test/"},
       }) {
    EXPECT_THAT(head_after(client_request(method::get, server.url()), redirect(302, location)),
                StartsWith("GET " + target + " HTTP/1.1\r\n"))
        << location;
    client.reset();
    make();
  }
}

TEST_F(HttpClientRedirects, AnEmptyPortIsThatOfTheScheme) {
  client_options options;
  options.proxy.http = url::parse(server.url()).value();
  make(std::move(options));
  EXPECT_THAT(head_after(client_request(method::get, "http://a.test:81/"),
                         redirect(302, "http://EXAMPLE.test:/~smith")),
              AllOf(StartsWith("GET http://example.test/~smith HTTP/1.1\r\n"),
                    HasSubstr("\r\nHost: example.test\r\n")));
}

// RFC 9110, 10.2.2.
TEST_F(HttpClientRedirects, TheFragmentIsKeptUnlessTheLocationHasOne) {
  make();
  for (const auto& [location, fragment] : std::vector<std::pair<std::string, std::string>>{
           {"/x", "mine"}, {"/x#theirs", "theirs"}, {"/x#", ""}, {"/x#a#b c", "a%23b%20c"}}) {
    running_request& request = send(client_request(method::get, server.url("/#mine")));
    peer& at = accept();
    receive_head(at);
    at.send(redirect(302, location));
    EXPECT_THAT(receive_head(at), StartsWith("GET /x HTTP/1.1\r\n"));
    at.send(redirect(302, "/y"));
    EXPECT_THAT(receive_head(at), StartsWith("GET /y HTTP/1.1\r\n"));
    at.send(ok);
    EXPECT_EQ(finish(request).response().url().fragment(), fragment) << location;
    client.reset();
    make();
  }
}

TEST_F(HttpClientRedirects, AMalformedLocationIsShownWithoutItsPassword) {
  make();
  const std::string message =
      answer_get(redirect(302, "http://me:secret@a b/?mail=you@c")).message();
  EXPECT_THAT(message, testing::HasSubstr("redirect to http://a b/?mail=you@c (the host "));
}

TEST_F(HttpClientRedirects, WithoutALocationItIsAResponse) {
  make();
  const std::string_view bare = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n";
  EXPECT_EQ(answer_get(bare).response().status(), status::found);
  EXPECT_EQ(answer_get(redirect(300, "/x")).response().status(), status::multiple_choices);
  EXPECT_EQ(answer_get(redirect(201, "/x")).response().status(), status::created);
}

TEST_F(HttpClientRedirects, MayBeLeftToTheProgram) {
  make({.follow_redirects = false});
  const client_response& response = answer_get(redirect(302, "/x")).response();
  EXPECT_EQ(response.status(), status::found);
  EXPECT_EQ(response.field("Location"), "/x");
  EXPECT_EQ(response.body(), "gone");
}

TEST_F(HttpClientRedirects, AStreamedBodyIsNotSentTwice) {
  make();
  client_request request(method::post, server.url());
  request.set_stream("", [](request_body_writer& to) -> task<> {
    auto writing = to.write("x");
    co_await std::move(writing);
  });
  running_request& sending = send(std::move(request));
  peer& at = accept();
  receive_until(at, "0\r\n\r\n");
  at.send(redirect(307, "/x"));
  EXPECT_EQ(finish(sending).error(), errc::bad_redirect);
}

TEST_F(HttpClientRedirects, ALongBodyOfARedirectIsNotRead) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 1000000\r\n\r\n");
  peer& next = accept();
  EXPECT_THAT(receive_head(next), StartsWith("GET /x "));
  EXPECT_TRUE(ends(at));
  next.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
}

// --- Cookies ---

TEST_F(HttpClientRedirects, CookiesAreKeptIfAskedFor) {
  make({.cookies = true});
  running_request& request = get();
  peer& at = accept();
  EXPECT_THAT(receive_head(at), Not(HasSubstr("Cookie")));
  at.send(redirect(302, "/x", "Set-Cookie: a=1\r\nSet-Cookie: b=2; Path=/y\r\n"));
  EXPECT_THAT(receive_head(at), HasSubstr("\r\nCookie: a=1\r\n"));
  at.send(ok);
  finish(request);
  EXPECT_EQ(client->cookies().size(), 2u);
  running_request& own = send(client_request(method::get, server.url()).set("Cookie", "c=3"));
  EXPECT_THAT(receive_head(at), AllOf(HasSubstr("\r\nCookie: c=3\r\n"), Not(HasSubstr("a=1"))));
  at.send(ok);
  finish(own);
}

TEST_F(HttpClientRedirects, NoCookiesByDefault) {
  make();
  answer_get("HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(client->cookies().size(), 0u);
}

// --- Proxies ---

TEST_F(HttpClientRedirects, AProxyGetsTheAbsoluteForm) {
  client_options options;
  options.proxy.http = url::parse("http://me:secret@" + server.authority()).value();
  make(std::move(options));
  running_request& request = send(client_request(method::get, "http://example.org:8080/a?b"));
  peer& at = accept();
  EXPECT_THAT(receive_head(at), AllOf(StartsWith("GET http://example.org:8080/a?b HTTP/1.1\r\n"),
                                      HasSubstr("\r\nHost: example.org:8080\r\n"),
                                      HasSubstr("\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n"),
                                      Not(HasSubstr("\r\nAuthorization"))));
  at.send(ok);
  finish(request);
  running_request& second = send(client_request(method::get, "http://example.com/"));
  EXPECT_THAT(receive_head(at), StartsWith("GET http://example.com/ "));
  at.send(ok);
  EXPECT_EQ(finish(second).response().body(), "ok");
  EXPECT_EQ(client->metrics().origins, 1u);
}

TEST_F(HttpClientRedirects, ATunnelLeadsThroughAProxy) {
  client_options options;
  options.proxy.http = url::parse("http://me:secret@" + server.authority()).value();
  options.proxy.tunnel_http = true;
  make(std::move(options));
  running_request& request = send(client_request(method::get, "http://example.org/a"));
  peer& at = accept();
  EXPECT_EQ(receive_head(at),
            "CONNECT example.org:80 HTTP/1.1\r\nHost: example.org:80\r\n"
            "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n");
  at.send("HTTP/1.1 200 Connection established\r\n\r\n");
  EXPECT_THAT(receive_head(at), AllOf(StartsWith("GET /a HTTP/1.1\r\nHost: example.org\r\n"),
                                      Not(HasSubstr("Proxy-"))));
  at.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
}

TEST_F(HttpClientRedirects, AProxyMayRefuseATunnel) {
  client_options options;
  options.proxy.http = url::parse(server.url()).value();
  options.proxy.tunnel_http = true;
  make(std::move(options));
  for (const std::string_view answer :
       {"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nunexpected"}) {
    running_request& request = send(client_request(method::get, "http://example.org/a"));
    peer& at = accept();
    receive_head(at);
    at.send(answer);
    EXPECT_EQ(finish(request).error(), errc::proxy_refused);
    EXPECT_THAT(request.message(), HasSubstr("http://example.org/a"));
  }
  running_request& request = send(client_request(method::get, "http://example.org/a"));
  receive_head(accept());
  virtual_time.settle();
  virtual_time.advance(11s);
  EXPECT_EQ(finish(request).error(), errc::timed_out);
  EXPECT_THAT(request.message(), HasSubstr("opening a tunnel"));
}

TEST_F(HttpClientRedirects, BytesAfterTheResponseToConnectAreToldApartFromARefusal) {
  client_options options;
  options.proxy.http = url::parse(server.url()).value();
  options.proxy.tunnel_http = true;
  make(std::move(options));
  running_request& refused = send(client_request(method::get, "http://example.org/a"));
  peer& refusing = accept();
  receive_head(refusing);
  refusing.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(finish(refused).error(), errc::proxy_refused);
  EXPECT_THAT(refused.message(), HasSubstr(": status 403"));

  running_request& request = send(client_request(method::get, "http://example.org/a"));
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\n\r\nunexpected");
  EXPECT_EQ(finish(request).error(), errc::proxy_refused);
  EXPECT_THAT(request.message(),
              AllOf(StartsWith("http::client: GET http://example.org/a: opening a tunnel by "),
                    HasSubstr(": bytes came after its response"), Not(HasSubstr("status"))));
}

TEST_F(HttpClientRedirects, ATunnelSkipsInterimResponses) {
  client_options options;
  options.proxy.http = url::parse(server.url()).value();
  options.proxy.tunnel_http = true;
  options.limits.interim_responses = 2;
  make(std::move(options));
  const std::string interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
  running_request& request = send(client_request(method::get, "http://example.org/a"));
  peer& at = accept();
  receive_head(at);
  at.send(interim + interim + "HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_THAT(receive_head(at), StartsWith("GET /a HTTP/1.1\r\n"));
  at.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
  client->close();

  make([&] {
    client_options again;
    again.proxy.http = url::parse(server.url()).value();
    again.proxy.tunnel_http = true;
    again.limits.interim_responses = 2;
    return again;
  }());
  running_request& flooded = send(client_request(method::get, "http://example.org/a"));
  peer& flooding = accept();
  receive_head(flooding);
  flooding.send(interim + interim + interim);
  EXPECT_EQ(finish(flooded).error(), errc::unexpected_status);
}

TEST_F(HttpClientRedirects, AProxyThatStopsWithinItsAnswerIsGivenUp) {
  client_options options;
  options.proxy.http = url::parse(server.url()).value();
  options.proxy.tunnel_http = true;
  options.timeouts.connect = 0s;
  options.timeouts.between_bytes = 5s;
  options.timeouts.total = 0s;
  make(std::move(options));
  running_request& request = send(client_request(method::get, "http://example.org/a"));
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nX:");
  virtual_time.turn_until([&] {
    virtual_time.settle();
    virtual_time.advance(1s);
    return request.done();
  });
  EXPECT_EQ(request.error(), errc::timed_out);
}

TEST_F(HttpClientRedirects, TheEnvironmentIsReadOnlyIfAsked) {
  ::setenv("http_proxy", server.authority().c_str(), 1);
  ::setenv("HTTPS_PROXY", "http://user@p.test:3128/", 1);
  ::setenv("no_proxy", " a.test, .b.test,,", 1);
  const proxy_settings found = gyre::http::proxy_from_environment();
  ::setenv("http_proxy", "socks5://a/", 1);
  EXPECT_THROW(static_cast<void>(gyre::http::proxy_from_environment()), std::system_error);
  ::setenv("http_proxy", "http://a b/", 1);
  EXPECT_THROW(static_cast<void>(gyre::http::proxy_from_environment()), std::system_error);
  ::setenv("http_proxy", "http://127.0.0.1:1/", 1);
  make();
  EXPECT_EQ(answer_get(ok).response().body(), "ok");
  ::unsetenv("http_proxy");
  ::unsetenv("HTTPS_PROXY");
  ::unsetenv("no_proxy");
  ASSERT_TRUE(found.http && found.https);
  EXPECT_EQ(found.http->authority(), server.authority());
  EXPECT_EQ(found.https->port(), 3128);
  EXPECT_EQ(found.no_proxy, (std::vector<std::string>{"a.test", ".b.test"}));
}

// --- Callbacks ---

class HttpClientCallbacks : public HttpClientRedirects {
 protected:
  using result = std::expected<client_response, std::error_code>;

  gyre::http::client::callback keep() {
    return [this](result answered) { got.emplace(std::move(answered)); };
  }

  std::optional<result> got;
};

TEST_F(HttpClientCallbacks, ACallbackGetsTheResponse) {
  make();
  client->send(client_request(method::get, server.url()), keep());
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  virtual_time.turn_until([&] { return got.has_value(); });
  ASSERT_TRUE(*got);
  EXPECT_EQ((*got)->body(), "ok");
}

TEST_F(HttpClientCallbacks, ACallbackGetsTheError) {
  make();
  server.close();
  client->send(client_request(method::get, server.url()), keep());
  virtual_time.turn_until([&] { return got.has_value(); });
  EXPECT_EQ(got->error(), std::errc::connection_refused);
}

TEST_F(HttpClientCallbacks, ACallbackGetsACodeForAnyExceptionOfTheBody) {
  make();
  const auto send_with = [this](gyre::http::client_request::body_function body) {
    client_request request(method::put, server.url());
    request.set_stream("", std::move(body));
    got.reset();
    client->send(std::move(request), keep());
    virtual_time.turn_until([&] { return got.has_value(); });
    return got->error();
  };
  EXPECT_EQ(send_with([](request_body_writer&) -> task<> {
              throw std::runtime_error("no more paper");
              co_return;
            }),
            std::errc::state_not_recoverable);
  EXPECT_EQ(send_with([](request_body_writer&) -> task<> {
              throw 1;
              co_return;
            }),
            std::errc::state_not_recoverable);
}

TEST_F(HttpClientCallbacks, AnotherThreadMaySend) {
  make();
  std::jthread([this] { client->send(client_request(method::get, server.url()), keep()); }).join();
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  virtual_time.turn_until([&] { return got.has_value(); });
  EXPECT_TRUE(*got);
}

TEST_F(HttpClientCallbacks, CloseEndsRequests) {
  make();
  client->send(client_request(method::get, server.url()), keep());
  receive_head(accept());
  client->close();
  virtual_time.turn_until([&] { return got.has_value(); });
  EXPECT_EQ(got->error(), gyre::io::errc::closed);
  EXPECT_EQ(finish(get()).error(), gyre::io::errc::not_open);
}

TEST_F(HttpClientCallbacks, ARefusedRequestIsNamed) {
  make();
  const auto is_named = StartsWith("http::client: GET " + server.url("/a") + ": connecting: ");
  gyre::http::client taken = std::move(*client);
  EXPECT_THAT(finish(get("/a")).message(), is_named);
  taken.close();
  EXPECT_THAT(finish(start(taken.get(server.url("/a")))).message(), is_named);
}

TEST_F(HttpClientCallbacks, NoCallbackComesAfterTheDestructor) {
  make();
  client->send(client_request(method::get, server.url()), keep());
  peer& at = accept();
  receive_head(at);
  client.reset();
  EXPECT_TRUE(ends(at));
  virtual_time.settle();
  EXPECT_FALSE(got);
}

TEST_F(HttpClientCallbacks, AClientThatWasMovedFromSaysSo) {
  make();
  gyre::http::client taken = std::move(*client);
  EXPECT_EQ(finish(get()).error(), gyre::io::errc::not_open);
  EXPECT_THROW(static_cast<void>(client->cookies()), std::logic_error);
  running_request& request = start(taken.get(server.url()));
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
}

TEST_F(HttpClientCallbacks, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(make({.connections_per_host = 0}), std::invalid_argument);
  EXPECT_THROW(make({.connecting = {.attempt_delay = -1ms}}), std::invalid_argument);
  EXPECT_THROW(make({.connecting = {.resolution_delay = -1ms}}), std::invalid_argument);
  client_options options;
  options.proxy.http = url::parse("https://a/").value();
  EXPECT_THROW(make(std::move(options)), std::invalid_argument);
}

}  // namespace
}  // namespace http_client_redirects_test
