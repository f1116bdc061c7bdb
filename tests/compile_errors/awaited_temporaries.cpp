// SPDX-License-Identifier: Apache-2.0
// Aggregates as temporaries in awaited expressions, which GCC before 13 destroys twice.
#include <gyre/http/client.hpp>
#include <gyre/net/passed_sockets.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/runtime/sharded.hpp>
#include <gyre/sync/async_cache.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/sync/select.hpp>
#include <gyre/sync/single_flight.hpp>
#include <gyre/task/invoke.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/task_local.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace {

struct job {
  int id = 0;
  std::string name;
  bool operator==(const job&) const = default;
};
struct hash_of_job {
  std::size_t operator()(const job& hashed) const { return std::hash<int>{}(hashed.id); }
};
struct point {
  int x = 0;
  int y = 0;
};

using gyre::task;
task<int> one() { co_return 1; }
int load(const job& key) { return key.id; }
task<> work(job) { co_return; }

}  // namespace

template <>
struct std::hash<job> : hash_of_job {};

namespace {

struct store {
  store() = default;
  explicit store(const job&) {}
};
const auto job_of = [](store&) { return job{1, "name"}; };
const auto later_of = [](job, const job& second) { return second; };

task<> safe_calls(gyre::channel<job>& jobs, gyre::channel<point>& points,
                  gyre::async_cache<job, int, hash_of_job>& cache, gyre::sharded<store>& stores,
                  gyre::net::unix_stream& stream) {
  job named{1, "name"};
  co_await jobs.send(named);
  co_await jobs.send_from(named);
  co_await jobs.emplace(1, "name");
  co_await points.send(point{1, 2});
  co_await points.send({1, 2});
  co_await cache.get(named, load);
  std::array tasks{one(), one()};
  co_await gyre::when_all(std::span(tasks));
  co_await gyre::when_all(one(), one());
  co_await gyre::invoke(work, named);
  co_await stores.start();
  co_await stores.start(named);
  co_await stores.call(named, job_of);
  co_await stores.call(1, job_of);
  co_await stores.map_reduce(job_of, named, later_of);
  co_await stores.map_reduce([](store&) { return point{1, 2}; }, point{1, 2},
                             [](point, point second) { return second; });
  std::array<gyre::net::passed_socket, 1> sockets;
  co_await gyre::net::send_sockets(stream, sockets);
  co_await gyre::net::send_sockets(stream, {});
}

task<> sends(gyre::channel<job>& jobs) {
  // expect gcc: emplace(members...)
  co_await jobs.send(job{1, "name"});
}
task<> sends_in_parentheses(gyre::channel<job>& jobs) {
  // expect gcc: emplace(members...)
  co_await jobs.send(job(1, "name"));
}
task<> sends_braces(gyre::channel<job>& jobs) {
  // expect gcc: emplace(members...)
  co_await jobs.send({1, "name"});
}
task<> sends_a_moved_one(gyre::channel<job>& jobs, job& named) {
  // expect gcc: send_from()
  co_await jobs.send(std::move(named));
}
task<> emplaces_an_aggregate(gyre::channel<job>& jobs) {
  // expect gcc: emplace(members...)
  co_await jobs.emplace(job{1, "name"});
}
task<> selects(gyre::channel<job>& jobs) {
  // expect gcc: emplace(members...)
  co_await gyre::select(gyre::on_send(jobs, job{1, "name"}));
}
task<> binds(const gyre::task_local<job>& local) {
  // expect gcc: give it a name
  co_await local.with(job{1, "name"}, one());
}
task<> looks_up(gyre::async_cache<job, int, hash_of_job>& cache) {
  // expect gcc: give it a name
  co_await cache.get(job{1, "name"}, load);
}
task<> runs_once(gyre::single_flight<job, int, hash_of_job>& flight) {
  // expect gcc: give it a name
  co_await flight.run(job{1, "name"}, load);
}
task<> gets() {
  // expect gcc: give it a name
  co_await gyre::http::get("http://localhost/", {});
}
task<> invokes() {
  // expect gcc: give it a name
  co_await gyre::invoke(work, job{1, "name"});
}
task<> starts(gyre::sharded<store>& stores) {
  // expect gcc: give it a name
  co_await stores.start(job{1, "name"});
}
task<> calls(gyre::sharded<store>& stores) {
  // expect gcc: give it a name
  co_await stores.call(job{1, "name"}, job_of);
}
task<> reduces(gyre::sharded<store>& stores) {
  // expect gcc: give it a name
  co_await stores.map_reduce(job_of, job{1, "name"}, later_of);
}
task<> passes(gyre::net::unix_stream& stream) {
  // expect gcc: give it a name
  co_await gyre::net::send_sockets(stream, std::array<gyre::net::passed_socket, 1>{});
}
task<> awaits_all() {
  // expect gcc: a std::span of a variable
  co_await gyre::when_all(std::array{one(), one()});
}
task<> awaits_any() {
  // expect gcc: a std::span of a variable
  co_await gyre::when_any(std::array{one(), one()});
}

}  // namespace
