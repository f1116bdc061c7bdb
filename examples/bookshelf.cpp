// SPDX-License-Identifier: Apache-2.0
// Keeps books in memory, by a JSON interface: {"title": "Dune", "year": 1965}.
//
//     bookshelf [ADDRESS:PORT [ORIGIN]]  # the origin of a page whose scripts may use it
//
//     GET /api/books?by=year&page=2
//     GET /api/books/7
//     POST /api/books, DELETE /api/books/7    with the token of BOOKSHELF_TOKEN
#include <gyre/http/bearer_authentication.hpp>
#include <gyre/http/cors.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/task.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Reads and writes all types that nlohmann's library knows.
template <class T>
  requires requires(nlohmann::json& tree, const T& value) { nlohmann::to_json(tree, value); }
struct gyre::http::json_traits<T> {
  static T read(std::string_view text) {
    const auto tree = nlohmann::json::parse(text, nullptr, false);
    if (tree.is_discarded()) throw gyre::http::json_error::malformed();
    try {
      return tree.get<T>();
    } catch (const nlohmann::json::exception& error) {
      throw gyre::http::json_error::mismatch(error.what());
    }
  }
  static std::string write(const T& value) { return nlohmann::json(value).dump(); }
};

enum class order { title, year };

template <>
inline constexpr auto gyre::http::parameter_names<order> =
    std::to_array<gyre::http::parameter_name<order>>(
        {{"title", order::title}, {"year", order::year}});

struct book {
  std::uint64_t id = 0;
  std::string title;
  int year = 0;
};

void to_json(nlohmann::json& tree, const book& value) {
  tree = {{"id", value.id}, {"title", value.title}, {"year", value.year}};
}

void from_json(const nlohmann::json& tree, book& value) {
  tree.at("title").get_to(value.title);
  tree.at("year").get_to(value.year);
}

// The bookshelf holds the books, and the handlers on all loops share it.
class bookshelf {
 public:
  book add(book added) {
    const std::lock_guard lock(mutex_);
    if (books_.size() == max_books) {
      throw gyre::http::http_error(gyre::http::status::insufficient_storage);
    }
    added.id = ++last_id_;
    return books_[added.id] = std::move(added);
  }
  std::optional<book> find(std::uint64_t id) const {
    const std::lock_guard lock(mutex_);
    const auto match = books_.find(id);
    return match != books_.end() ? std::optional(match->second) : std::nullopt;
  }
  bool remove(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    return books_.erase(id) != 0;
  }
  std::vector<book> list(order by, std::size_t page) const {
    std::vector<book> sorted;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, each] : books_) sorted.push_back(each);
    }
    std::ranges::sort(sorted, [by](const book& left, const book& right) {
      return by == order::title ? left.title < right.title : left.year < right.year;
    });
    const std::size_t begin = std::min((page - 1) * page_size, sorted.size());
    const std::size_t end = std::min(begin + page_size, sorted.size());
    return {sorted.begin() + static_cast<std::ptrdiff_t>(begin),
            sorted.begin() + static_cast<std::ptrdiff_t>(end)};
  }

 private:
  static constexpr std::size_t max_books = 1000;
  static constexpr std::size_t page_size = 20;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, book> books_;
  std::uint64_t last_id_ = 0;
};

void add_readers(gyre::http::route_group& api, bookshelf& shelf) {
  api.get("/books", [&](gyre::http::request& request) {
    const auto by = request.query<order>("by", order::title);
    const auto page = request.query<std::uint16_t>("page", 1);
    if (page == 0) throw gyre::http::parameter_error("page", "at least 1");
    return gyre::http::response::json(shelf.list(by, page));
  });
  api.get("/books/{id}", [&](gyre::http::request& request) {
    const auto match = shelf.find(request.param<std::uint64_t>("id"));
    if (!match) return gyre::http::response(gyre::http::status::not_found);
    return gyre::http::response::json(*match);
  });
}

void add_editors(gyre::http::route_group& parent, bookshelf& shelf, const std::string& token) {
  auto api = parent.group("");
  const gyre::http::known_users users{{"editor", token}};
  api.use(gyre::http::bearer_authentication("bookshelf", users));
  api.post("/books", [&](gyre::http::request& request) {
    const auto added = request.json<book>();  // 415, 400 or 422 if the body is no book
    return gyre::http::response::json(shelf.add(added), gyre::http::status::created);
  });
  api.delete_("/books/{id}", [&](gyre::http::request& request) {
    const auto* const user = request.attachment<gyre::http::authenticated_user>();
    const bool was_there = shelf.remove(request.param<std::uint64_t>("id"));
    if (!was_there) return gyre::http::response(gyre::http::status::not_found);
    return gyre::http::response::text("removed by " + user->name + "\n");
  });
}

gyre::task<> serve(gyre::runtime& rt, gyre::net::endpoint address, std::string origin,
                   std::string token) {
  bookshelf shelf;
  gyre::http::server server(rt.loops(), address);
  auto api = server.group("/api");
  api.use(gyre::http::cors({.origins = {origin}}));
  add_readers(api, shelf);
  add_editors(api, shelf, token);
  server.start();
  std::cout << "listening on " << server.local_endpoint() << std::endl;

  auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return server.stop_async(); });
  co_await rt.drained();
}

int main(int argc, char** argv) {
  const char* address = argc > 1 ? argv[1] : "[::]:8080";
  const char* origin = argc > 2 ? argv[2] : "http://localhost:3000";
  const char* token = std::getenv("BOOKSHELF_TOKEN");
  if (token == nullptr) {
    std::cerr << "bookshelf: set BOOKSHELF_TOKEN to the token of its editors\n";
    return 2;
  }
  return gyre::runtime::main([&](gyre::runtime& rt) { return serve(rt, address, origin, token); });
}
