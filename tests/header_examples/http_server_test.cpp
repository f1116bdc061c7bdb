// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of http's headers about servers.
#include <gyre/gyre.hpp>
#include <tests/header_examples/support.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace http_server_test {

struct colour {
  std::string code;
};
std::optional<colour> parse_colour(std::string_view text) {
  if (text.size() != 7 || text.front() != '#') return std::nullopt;
  return colour{std::string(text)};
}
enum class order { newest, oldest };

}  // namespace http_server_test

using http_server_test::colour;
using http_server_test::order;
using http_server_test::parse_colour;

// clang-format off
// gyre/http/parameter_traits.hpp
template <>
struct gyre::http::parameter_traits<colour> {
  static std::string describe() { return "a colour, such as #ff8000"; }
  static std::optional<colour> parse(std::string_view text) { return parse_colour(text); }
};
template <>
inline constexpr auto gyre::http::parameter_names<order> =
    std::to_array<gyre::http::parameter_name<order>>(
        {{"newest", order::newest}, {"oldest", order::oldest}});
// clang-format on

namespace http_server_test {
namespace {

using header_examples::any_port;
using namespace std::chrono_literals;

std::string find_user(std::uint64_t id, int page) {
  return "user " + std::to_string(id) + ", page " + std::to_string(page);
}

gyre::task<std::string> ask(gyre::net::endpoint server, std::string path, std::string fields = "") {
  auto connecting = gyre::net::connect(std::move(server));
  gyre::net::tcp_stream peer = co_await std::move(connecting);
  co_await peer.write_all("GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + fields +
                          "\r\n");
  std::string all;
  for (;;) {
    auto bytes = co_await peer.receive();
    if (bytes.empty()) break;
    all += bytes.text();
  }
  co_return all.substr(all.find("\r\n\r\n") + 4);
}

class HttpServerExamples : public testing::Test {
 protected:
  std::string get(std::string path, std::string fields = "") {
    if (!started_) server.start();
    started_ = true;
    return gyre::sync_wait(loop, ask(server.local_endpoint(), std::move(path), std::move(fields)));
  }
  void TearDown() override { gyre::sync_wait(loop, stop()); }
  gyre::task<> stop() { co_await server.stop_async(0s); }

  gyre::loop loop;
  gyre::thread_pool workers{1};
  gyre::http::server server{loop, any_port()};

 private:
  bool started_ = false;
};

TEST_F(HttpServerExamples, HandlersHaveThreeForms) {
  // clang-format off
  // gyre/http/handler.hpp
  server.get("/now", [](gyre::http::request&) { return gyre::http::response::text("now"); });
  server.get("/soon", [](gyre::http::request&) -> gyre::task<gyre::http::response> {
    co_await gyre::sleep_for(1s);
    co_return gyre::http::response::text("soon");
  });
  server.get("/later", [&](gyre::http::request&, gyre::http::responder answer) {
    workers.post([answer = std::move(answer)] {
      answer.send(gyre::http::response::text("later"));
    });
  });
  // clang-format on
  EXPECT_EQ(get("/now"), "now");
  EXPECT_EQ(get("/soon"), "soon");
  EXPECT_EQ(get("/later"), "later");
}

TEST_F(HttpServerExamples, RequestsHaveParametersAndQueries) {
  // clang-format off
  // gyre/http/request.hpp
  server.get("/users/{id}", [](gyre::http::request& request) {
    const auto id = request.param<std::uint64_t>("id");  // 400 unless it is a number
    const int page = request.query<int>("page", 1);
    return gyre::http::response::text(find_user(id, page));
  });
  // clang-format on
  EXPECT_EQ(get("/users/7?page=2"), "user 7, page 2");
  EXPECT_EQ(get("/users/7"), "user 7, page 1");
}

gyre::http::response echo_path(gyre::http::request& request) {
  return gyre::http::response::text(std::string(request.path()));
}
constexpr auto show_note = echo_path, remove_note = echo_path, change_note = echo_path,
               forward = echo_path, show_status = echo_path, add_user = echo_path;

gyre::task<gyre::http::response> require_admin(gyre::http::request&, gyre::http::next_handler) {
  co_return gyre::http::response::text("refused");
}

TEST_F(HttpServerExamples, RoutesAreForOneMethodOrMore) {
  using gyre::http::method;
  // gyre/http/route_verbs.hpp
  server.get("/notes/{id}", show_note).delete_("/notes/{id}", remove_note);
  server.route({method::put, method::patch}, "/notes/{id}", change_note);
  server.any("/legacy/{path...}", forward);
  EXPECT_EQ(get("/notes/7"), "/notes/7");
  EXPECT_EQ(get("/legacy/a"), "/legacy/a");
}

TEST_F(HttpServerExamples, GroupsHaveAPrefixAndMiddleware) {
  // gyre/http/route_group.hpp
  auto api = server.group("/api/v1");
  api.get("/status", show_status);  // GET /api/v1/status
  auto admin = api.group("/admin");
  admin.use(require_admin);
  admin.post("/users", add_user);  // POST /api/v1/admin/users, inside require_admin
  EXPECT_EQ(get("/api/v1/status"), "/api/v1/status");
  EXPECT_EQ(get("/api/v1/admin/users"), "refused");
}

TEST_F(HttpServerExamples, ParametersHaveErrors) {
  server.get("/", [](gyre::http::request& request) {
    // gyre/http/parameter_error.hpp
    const int page = request.query<int>("page", 1);
    if (page < 1) throw gyre::http::parameter_error("page", "a positive integer");
    return gyre::http::response::text("page " + std::to_string(page));
  });
  EXPECT_EQ(get("/"), "page 1");
  EXPECT_EQ(get("/?page=0"), "The parameter 'page' must be a positive integer.\n");
}

TEST_F(HttpServerExamples, ParametersMayBeOfOtherTypes) {
  server.get("/", [](gyre::http::request& request) {
    const auto background = request.query<colour>("colour");
    const auto by = request.query<order>("by", order::newest);
    return gyre::http::response::text(background.code + (by == order::oldest ? " oldest" : ""));
  });
  EXPECT_EQ(get("/?colour=%23ff8000&by=oldest"), "#ff8000 oldest");
  EXPECT_EQ(get("/?colour=red"), "The parameter 'colour' must be a colour, such as #ff8000.\n");
}

// clang-format off
void read_note(bool is_malformed) {
  // gyre/http/json_error.hpp
  if (is_malformed)
    throw gyre::http::json_error::malformed("line 3: a comma is missing");  // 400
  throw gyre::http::json_error::mismatch("'title' is not a text");        // 422
}
// clang-format on

TEST(HttpJsonErrorExample, HasAStatus) {
  for (const bool is_malformed : {true, false}) {
    try {
      read_note(is_malformed);
    } catch (const gyre::http::json_error& error) {
      EXPECT_EQ(to_number(error.status()), is_malformed ? 400u : 422u);
    }
  }
}

TEST_F(HttpServerExamples, CorsNamesTheOrigins) {
  server.get("/", echo_path);
  // gyre/http/cors.hpp
  server.use(gyre::http::cors({.origins = {"https://app.example.org"}, .allow_credentials = true}));
  EXPECT_EQ(get("/"), "/");
}

TEST_F(HttpServerExamples, UsersMayBeListed) {
  const std::string password = "secret", other_password = "other";
  // gyre/http/known_users.hpp
  gyre::http::known_users users{{"ada", password}, {"grace", other_password}};
  server.use(gyre::http::basic_authentication("notes", users));
  EXPECT_EQ(get("/"), "Unauthorized\n");
}

struct {
  bool check(std::string_view name, std::string_view password) const {
    return name == "ada" && password == "secret";
  }
} accounts;

TEST_F(HttpServerExamples, BasicAuthenticationAsksAFunction) {
  // clang-format off
  // gyre/http/basic_authentication.hpp
  server.use(gyre::http::basic_authentication(
      "notes", [&](std::string_view name, std::string_view password) {
        return accounts.check(name, password);
      }));
  server.get("/me", [](gyre::http::request& request) {
    auto* user = request.attachment<gyre::http::authenticated_user>();
    return gyre::http::response::text("You are " + user->name);
  });
  // clang-format on
  EXPECT_EQ(get("/me"), "Unauthorized\n");
  EXPECT_EQ(get("/me", "Authorization: Basic YWRhOnNlY3JldA==\r\n"), "You are ada");
}

struct session {
  std::string cart;
};
struct {
  gyre::task<std::optional<session>> find(std::string_view token) const {
    if (token != "token") co_return std::nullopt;
    co_return session{"a book"};
  }
} sessions;

TEST_F(HttpServerExamples, BearerAuthenticationAsksACoroutine) {
  // clang-format off
  // gyre/http/bearer_authentication.hpp
  auto api = server.group("/api");
  api.use(gyre::http::bearer_authentication(
      "api", [&](std::string_view token) -> gyre::task<std::optional<session>> {
        co_return co_await sessions.find(token);
      }));
  api.get("/cart", [](gyre::http::request& request) {
    return gyre::http::response::text(request.attachment<session>()->cart);
  });
  // clang-format on
  EXPECT_EQ(get("/api/cart"), "Unauthorized\n");
  EXPECT_EQ(get("/api/cart", "Authorization: Bearer token\r\n"), "a book");
}

gyre::http::response user(bool known) {
  // gyre/http/response.hpp
  if (!known) return gyre::http::response(gyre::http::status::not_found);
  return gyre::http::response::json(R"({"id":7})").set("Cache-Control", "no-store");
}

TEST_F(HttpServerExamples, ResponsesHaveFields) {
  EXPECT_EQ(user(true).fields().get("cache-control"), "no-store");
  EXPECT_EQ(user(false).status(), gyre::http::status::not_found);
}

TEST(HttpServerExample, GreetsByName) {
  gyre::runtime runtime({.loops = 1});
  const gyre::net::endpoint at = any_port();
  // gyre/http/server.hpp
  gyre::http::server server(runtime.loops(), at);  // an endpoint, or ":8080"
  server.get("/hello/{name}", [](gyre::http::request& request) {
    return gyre::http::response::text("Hello, " + request.param("name"));
  });
  server.start();
  gyre::loop here;
  EXPECT_EQ(gyre::sync_wait(here, ask(server.local_endpoint(), "/hello/a%20b")), "Hello, a b");
  gyre::sync_wait(server.stop_async(0s));
}

TEST(HttpServerExample, AProxyNamesTheClient) {
  gyre::loop loop;
  const gyre::net::endpoint at = any_port();
  // clang-format off
  // gyre/http/forwarding.hpp
  gyre::http::server_options options{
      .forwarding = {.trusted = {"10.0.0.0/8", "2001:db8::/32"}}};
  gyre::http::server server(loop, at, options);
  server.get("/", [](gyre::http::request& request) {
    return gyre::http::response::text(request.client_address()->to_string());
  });
  // clang-format on
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, ask(server.local_endpoint(), "/")), "127.0.0.1");
  gyre::sync_wait(loop, server.stop_async(0s));
}

TEST_F(HttpServerExamples, RecordsBecomeLines) {
  std::string log;
  // gyre/http/access_log.hpp
  server.on_access([&](const gyre::http::access_record& record) {
    log += gyre::http::to_combined_log(record) + '\n';
  });
  server.get("/", [](gyre::http::request&) { return gyre::http::response::text("allowed"); });
  EXPECT_EQ(get("/"), "allowed");
  EXPECT_TRUE(log.contains("\"GET / HTTP/1.1\" 200 7"));
}

TEST_F(HttpServerExamples, LimitsRefuseRequests) {
  // gyre/http/rate_limit.hpp
  const gyre::http::rate_limit limit({.tokens = 50, .per = 1s, .burst = 100});
  server.use(limit);
  server.get("/", [](gyre::http::request&) { return gyre::http::response::text("allowed"); });
  EXPECT_EQ(get("/"), "allowed");
  EXPECT_EQ(limit.metrics().allowed, 1u);
}

TEST_F(HttpServerExamples, ConcurrencyIsLimited) {
  // gyre/http/concurrency_limit.hpp
  const gyre::http::concurrency_limit limit({.max_running = 100, .max_wait = 500ms});
  server.use(limit);
  server.get("/", [](gyre::http::request&) { return gyre::http::response::text("allowed"); });
  EXPECT_EQ(get("/"), "allowed");
  EXPECT_EQ(limit.metrics().admitted, 1u);
}

TEST(HttpServerExample, CountsRoutesAndWritesALog) {
  const gyre::test::temporary_folder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(std::filesystem::path(folder.path()));
  gyre::loop loop;
  gyre::http::server server(loop, any_port(), {.counts_routes = true});
  // gyre/http/access_log_writer.hpp
  std::ofstream file("access.log", std::ios::app);
  gyre::http::access_log_writer log(gyre::io::blocking_pool(), [&](std::string_view lines) {
    file << lines << std::flush;  // may block; never called twice at the same time
  });
  server.on_access(log);
  std::filesystem::current_path(before);
  // gyre/http/trace_handler.hpp
  server.get("/debug/trace", gyre::http::trace_handler());
  // gyre/http/route_metrics.hpp
  server.get("/metrics", [&](gyre::http::request&) {
    gyre::http::metrics_text text;
    gyre::http::add_route_metrics(text, server.route_metrics());
    return text.response();
  });
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, ask(server.local_endpoint(), "/metrics")), "");
  EXPECT_TRUE(
      gyre::sync_wait(loop, ask(server.local_endpoint(), "/metrics"))
          .contains("http_responses_total{method=\"GET\",route=\"/metrics\",code=\"2xx\"} 1"));
  gyre::sync_wait(loop, server.stop_async(0s));
  log.flush();
  EXPECT_EQ(log.metrics().lines, 2u);
}

void print(std::string_view name, std::string_view value) {
  EXPECT_EQ(std::string(name) + "=" + std::string(value),
            name == "Vary" ? "Vary=Accept" : "Content-Type=text/plain");
}

TEST(Http2OptionsExample, LimitConnections) {
  gyre::loop loop;
  // clang-format off
  // gyre/http/http2_options.hpp
  gyre::http::server_options options;
  options.http2.max_streams = 32;
  options.http2.prior_knowledge = false;
  // clang-format on
  const gyre::http::server server(loop, any_port(), options);
  EXPECT_EQ(server.metrics().requests, 0U);
}

TEST(HttpFieldsExample, SetsAndFinds) {
  // gyre/http/fields.hpp
  gyre::http::fields fields;
  fields.set("Content-Type", "text/plain").add("Vary", "Accept");
  auto type = fields.get("content-type");  // "text/plain"
  for (const auto& [name, value] : fields) print(name, value);
  EXPECT_EQ(type, "text/plain");
}

}  // namespace
}  // namespace http_server_test
