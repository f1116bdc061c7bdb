// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/file_server.hpp>

#include <gyre/http/date.hpp>
#include <gyre/http/detail/root_directory.hpp>
#include <gyre/http/percent_encoding.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/task/sync_wait.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace http_file_server_test {
namespace {

using namespace gyre::net::test;
using gyre::http::file_server;
using gyre::http::file_server_options;
using gyre::http::detail::path_below_root;
using gyre::http::detail::root_directory;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

constexpr std::string_view secret = "SECRET";

// A directory `root` with files, and others beside it, which must not be served.
class folder {
 public:
  folder() {
    std::string name = testing::TempDir() + "gyre_files_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    above_ = fs::canonical(name);
    fs::create_directories(above_ / "root" / "sub" / "empty");
    fs::create_directory(above_ / "root2");
    write("root2/a.txt", secret);
    write("secret", secret);
    write("root/a.txt", "0123456789");
    write("root/index.html", "<p>index");
    write("root/sub/b c.html", "<p>b c");
    write("root/.hidden", "hidden");
    write("root/empty.txt", "");
    fs::create_symlink("a.txt", above_ / "root" / "inner");
    fs::create_symlink(above_ / "secret", above_ / "root" / "out");
    fs::create_symlink("../secret", above_ / "root" / "up");
    fs::create_directory_symlink("..", above_ / "root" / "parent");
    fs::create_directory_symlink("sub", above_ / "root" / "sub_link");
    ::mkfifo((above_ / "root" / "pipe").c_str(), 0600);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() { fs::remove_all(above_); }

  // The files are old, so that their tags are strong.
  void write(std::string_view name, std::string_view text, int days_old = 30) const {
    const fs::path path = above_ / name;
    std::ofstream(path) << text;
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::days(days_old));
  }
  fs::path above() const { return above_; }
  fs::path root() const { return above_ / "root"; }

 private:
  fs::path above_;
};

struct answer {
  std::string status;
  std::string head;
  std::string body;

  std::string field(std::string_view name) const {
    const std::size_t at = head.find("\r\n" + std::string(name) + ": ");
    if (at == std::string::npos) return {};
    const std::size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class HttpFileServer : public testing::Test {
 protected:
  void serve(file_server_options options = {}) {
    on.emplace(virtual_time.loop, any_port());
    on->get("/{path...}", file_server(files.root().string(), options));
    on->start();
  }
  answer request(std::string_view method, std::string_view target, std::string_view fields = "") {
    peer client(on->local_endpoint());
    client.send(std::string(method) + ' ' + std::string(target) +
                " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + std::string(fields) + "\r\n");
    virtual_time.turn_until([&] {
      client.receive();
      return client.ended;
    });
    const std::size_t end = client.text.find("\r\n\r\n");
    if (end == std::string::npos) return {"ended", client.text, ""};
    return {client.text.substr(9, 3), client.text.substr(0, end + 2), client.text.substr(end + 4)};
  }
  answer get(std::string_view target, std::string_view fields = "") {
    return request("GET", target, fields);
  }

  folder files;
  gyre::test::io_in_virtual_time virtual_time;
  std::optional<gyre::http::server> on;
};

TEST_F(HttpFileServer, ServesAFile) {
  serve({.cache_control = "max-age=60"});
  const answer whole = get("/a.txt");
  EXPECT_EQ(whole.status, "200");
  EXPECT_EQ(whole.body, "0123456789");
  EXPECT_EQ(whole.field("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_EQ(whole.field("Content-Length"), "10");
  EXPECT_EQ(whole.field("Accept-Ranges"), "bytes");
  EXPECT_EQ(whole.field("Cache-Control"), "max-age=60");
  EXPECT_EQ(whole.field("X-Content-Type-Options"), "nosniff");
  EXPECT_THAT(whole.field("ETag"), StartsWith("\""));
  EXPECT_TRUE(gyre::http::parse_date(whole.field("Last-Modified")));
  EXPECT_EQ(get("/sub/b%20c.html").body, "<p>b c");
  EXPECT_EQ(get("/empty.txt").field("Content-Length"), "0");
}

TEST_F(HttpFileServer, ServesAFileThatTheKernelSendsInParts) {
  const std::string large = long_text(3'000'000);
  files.write("root/large.bin", large);
  serve();
  EXPECT_EQ(get("/large.bin").body, large);
}

TEST_F(HttpFileServer, AnswersHead) {
  serve();
  const answer head = request("HEAD", "/a.txt", "Range: bytes=1-2\r\n");
  EXPECT_EQ(head.status, "200");
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(head.field("Content-Length"), "10");
}

TEST_F(HttpFileServer, ServesTheIndexOfADirectory) {
  serve();
  EXPECT_EQ(get("/").body, "<p>index");
  EXPECT_EQ(get("/").field("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(get("/sub/").status, "403");
  EXPECT_EQ(get("/none/").status, "404");
  EXPECT_EQ(get("/a.txt/").status, "404");
}

TEST_F(HttpFileServer, RedirectsADirectory) {
  serve();
  const answer moved = get("/sub?x=1");
  EXPECT_EQ(moved.status, "301");
  EXPECT_EQ(moved.field("Location"), "./sub/?x=1");
  EXPECT_EQ(get("/sub/empty").field("Location"), "./empty/");
  // A client would take "//host" for another server.
  EXPECT_EQ(get("//sub").status, "404");
  EXPECT_EQ(get("/%2e/sub").status, "404");
}

TEST_F(HttpFileServer, ListsADirectory) {
  files.write("root/sub/<&'\".txt", "");
  files.write("root/sub/.dot", "");
  files.write("root/sub/a:b#?%.txt", "");
  ::mkfifo((files.root() / "sub" / "pipe").c_str(), 0600);
  fs::create_symlink("../a.txt", files.root() / "sub" / "link");
  serve({.list_directories = true});
  const answer list = get("/sub/");
  EXPECT_EQ(list.status, "200");
  EXPECT_EQ(list.field("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(
      list.body,
      AllOf(HasSubstr("<title>/sub/</title>"), HasSubstr("<a href=\"b%20c.html\">b c.html</a>"),
            HasSubstr("<a href=\"empty/\">empty/</a>"),
            HasSubstr("<a href=\"%3C%26%27%22.txt\">&lt;&amp;&#39;&quot;.txt"),
            HasSubstr("<a href=\"a%3Ab%23%3F%25.txt\">a:b#?%.txt</a>"), Not(HasSubstr(".dot")),
            Not(HasSubstr("pipe")), Not(HasSubstr("link"))));
  EXPECT_EQ(get("/").body, "<p>index");
  EXPECT_EQ(get("/a.txt/").status, "404");
  EXPECT_EQ(get("/sub/%3C%26%27%22.txt").status, "200");
  EXPECT_EQ(get("/sub/a%3Ab%23%3F%25.txt").status, "200");
}

TEST_F(HttpFileServer, CutsALongList) {
  serve({.index = "", .list_directories = true, .list_limit = 2});
  EXPECT_THAT(get("/").body, HasSubstr("The list is cut here."));
  EXPECT_THAT(get("/sub/").body, Not(HasSubstr("The list is cut here.")));
}

// --- Conditions and ranges ---

TEST_F(HttpFileServer, AnswersConditions) {
  serve({.cache_control = "no-cache"});
  const answer whole = get("/a.txt");
  const std::string tag = whole.field("ETag");
  const answer same = get("/a.txt", "If-None-Match: \"x\"\r\nIf-None-Match: " + tag + "\r\n");
  EXPECT_EQ(same.status, "304");
  EXPECT_EQ(same.body, "");
  EXPECT_EQ(same.field("ETag"), tag);
  EXPECT_EQ(same.field("Cache-Control"), "no-cache");
  EXPECT_EQ(get("/a.txt", "If-None-Match: \"x\"\r\n").status, "200");
  const std::string date = whole.field("Last-Modified");
  EXPECT_EQ(get("/a.txt", "If-Modified-Since: " + date + "\r\n").status, "304");
  EXPECT_EQ(get("/a.txt", "If-Match: \"x\"\r\n").status, "412");
  EXPECT_EQ(get("/a.txt", "If-Match: " + tag + "\r\n").status, "200");
  EXPECT_EQ(get("/a.txt", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n").status, "412");
  files.write("root/a.txt", "9876543210", 29);
  EXPECT_EQ(get("/a.txt", "If-None-Match: " + tag + "\r\n").status, "200");
}

TEST_F(HttpFileServer, TheTagOfAFileThatMayStillChangeIsWeak) {
  // Its time lies ahead, so that it does not become old meanwhile.
  files.write("root/new.txt", "new", 0);
  fs::last_write_time(files.root() / "new.txt",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  serve();
  EXPECT_THAT(get("/new.txt").field("ETag"), StartsWith("W/\""));
}

TEST_F(HttpFileServer, AFileFromTheFutureIsDatedToday) {
  files.write("root/a.txt", "tomorrow", -30);
  serve();
  const answer first = get("/a.txt");
  EXPECT_EQ(first.field("Last-Modified"), first.field("Date"));
  // A copy from the time when the clock was wrong.
  const std::string ahead = gyre::http::format_date(
      std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) +
      std::chrono::days(30));
  files.write("root/a.txt", "9876543210", 29);
  EXPECT_EQ(get("/a.txt", "If-Modified-Since: " + ahead + "\r\n").body, "9876543210");
}

TEST_F(HttpFileServer, ServesARange) {
  serve();
  const auto range = [&](std::string_view value, std::string_view more = "") {
    return get("/a.txt", "Range: " + std::string(value) + "\r\n" + std::string(more));
  };
  const answer part = range("bytes=2-4");
  EXPECT_EQ(part.status, "206");
  EXPECT_EQ(part.body, "234");
  EXPECT_EQ(part.field("Content-Range"), "bytes 2-4/10");
  EXPECT_EQ(part.field("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_EQ(range("bytes=-3").body, "789");
  EXPECT_EQ(range("bytes=8-").body, "89");
  const answer none = range("bytes=10-");
  EXPECT_EQ(none.status, "416");
  EXPECT_EQ(none.field("Content-Range"), "bytes */10");
  EXPECT_EQ(range("lines=1-2").status, "200");

  const std::string tag = part.field("ETag");
  EXPECT_EQ(range("bytes=2-4", "If-Range: " + tag + "\r\n").status, "206");
  EXPECT_EQ(range("bytes=2-4", "If-Range: \"x\"\r\n").body, "0123456789");
  EXPECT_EQ(range("bytes=2-4", "If-Range: " + part.field("Last-Modified") + "\r\n").body,
            "0123456789")
      << "the file may have changed twice in that second";
  EXPECT_EQ(range("bytes=2-4", "If-None-Match: " + tag + "\r\n").status, "304");
}

TEST_F(HttpFileServer, ServesSeveralRanges) {
  serve();
  const answer parts = get("/a.txt", "Range: bytes=0-1,5-6,-1\r\n");
  EXPECT_EQ(parts.status, "206");
  const std::string type = parts.field("Content-Type");
  ASSERT_THAT(type, StartsWith("multipart/byteranges; boundary="));
  const std::string line = "--" + type.substr(type.find('=') + 1);
  const std::string head = "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes ";
  EXPECT_EQ(parts.field("Content-Length"), std::to_string(parts.body.size()));
  EXPECT_EQ(parts.body, line + head + "0-1/10\r\n\r\n01\r\n" + line + head +
                            "5-6/10\r\n\r\n56\r\n" + line + head + "9-9/10\r\n\r\n9\r\n" + line +
                            "--\r\n");
}

TEST_F(HttpFileServer, ServesSeveralLargeRanges) {
  const std::string large = long_text(1'000'000);
  files.write("root/large.bin", large);
  serve();
  const answer parts = get("/large.bin", "Range: bytes=0-299999,400000-\r\n");
  const std::string& body = parts.body;
  EXPECT_EQ(parts.field("Content-Length"), std::to_string(body.size()));
  EXPECT_THAT(body.find(large.substr(0, 300'000)) != body.npos, true);
  EXPECT_THAT(body.find("\r\n\r\n" + large.substr(400'000) + "\r\n--") != body.npos, true);
}

TEST_F(HttpFileServer, TooManyRangesGetTheWholeFile) {
  files.write("root/large.bin", long_text(1000));
  serve();
  std::string ranges = "Range: bytes=0-0";
  for (int i = 2; i < 40; i += 2) ranges += "," + std::to_string(i) + "-" + std::to_string(i);
  EXPECT_EQ(get("/large.bin", ranges + "\r\n").status, "200");
}

// --- Precompressed files ---

TEST_F(HttpFileServer, ServesPrecompressedFiles) {
  files.write("root/a.txt.gz", "gzip", 29);
  files.write("root/a.txt.br", "br", 31);  // older than a.txt
  files.write("root/index.html.br", "br", 29);
  serve({.precompressed = true});
  const answer packed = get("/a.txt", "Accept-Encoding: gzip, br\r\n");
  EXPECT_EQ(packed.body, "gzip");
  EXPECT_EQ(packed.field("Content-Encoding"), "gzip");
  EXPECT_EQ(packed.field("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_EQ(packed.field("Vary"), "Accept-Encoding");
  const answer plain = get("/a.txt");
  EXPECT_EQ(plain.body, "0123456789");
  EXPECT_EQ(plain.field("Vary"), "Accept-Encoding");
  EXPECT_NE(plain.field("ETag"), packed.field("ETag"));
  EXPECT_EQ(get("/a.txt", "Accept-Encoding: zstd\r\n").body, "0123456789");
  EXPECT_EQ(get("/", "Accept-Encoding: br\r\n").body, "br");
}

// --- Nothing else ---

TEST_F(HttpFileServer, RefusesAllElse) {
  serve();
  for (const std::string_view path :
       {"/none", "/pipe", "/.hidden", "/inner", "/out", "/up", "/parent/secret", "/sub_link/",
        "/sub_link/b%20c.html", "/sub//b%20c.html", "/sub%2Fb%20c.html", "/a.txt%00",
        "/a.txt%00.html", "/a.txt%5C", "/sub%5Cb%20c.html", "/%2ehidden"}) {
    EXPECT_EQ(get(path).status, "404") << path;
  }
  EXPECT_EQ(get("/" + std::string(300, 'x')).status, "404");
}

TEST_F(HttpFileServer, ServesHiddenFilesAndSymlinksByOption) {
  serve({.hidden_files = true, .follow_symlinks = true});
  EXPECT_EQ(get("/.hidden").body, "hidden");
  EXPECT_EQ(get("/inner").body, "0123456789");
  EXPECT_EQ(get("/sub_link/b%20c.html").body, "<p>b c");
  for (const std::string_view path : {"/out", "/up", "/parent/secret", "/parent/root/a.txt"}) {
    EXPECT_EQ(get(path).status, "404") << path;
  }
}

TEST_F(HttpFileServer, AnswersAnUnreadableFileBy403) {
  ::chmod((files.root() / "a.txt").c_str(), 0);
  serve();
  EXPECT_EQ(get("/a.txt").status,
            ::access((files.root() / "a.txt").c_str(), R_OK) == 0 ? "200" : "403");
}

TEST_F(HttpFileServer, ARouteWithoutTheParameterIsAnError) {
  on.emplace(virtual_time.loop, any_port());
  on->get("/x/{rest...}", file_server(files.root().string()));
  std::string message;
  on->on_error([&](const gyre::http::request&, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& known) {
      message = known.what();
    }
  });
  on->post("/{path...}", file_server(files.root().string()));
  on->start();
  EXPECT_EQ(get("/x/a.txt").status, "500");
  EXPECT_EQ(message, "http::file_server: the route's pattern has no {path...}");
  EXPECT_EQ(request("POST", "/a.txt", "Content-Length: 0\r\n").status, "405");
}

TEST(HttpFileServerRoot, MustBeADirectory) {
  const folder files;
  EXPECT_THROW(file_server((files.root() / "a.txt").string()), std::system_error);
  EXPECT_THROW(file_server((files.root() / "none").string()), std::system_error);
}

// --- Hostile paths ---

const std::vector<std::string>& hostile_paths() {
  static const std::vector<std::string> paths{"..",
                                              "../secret",
                                              "../root2/a.txt",
                                              "sub/../../secret",
                                              "sub/../..",
                                              "./a.txt",
                                              ".",
                                              "%2e%2e/secret",
                                              "%2E%2E/secret",
                                              ".%2e/secret",
                                              "%2e./secret",
                                              "..%2fsecret",
                                              "..%2Fsecret",
                                              "%2e%2e%2fsecret",
                                              "sub%2f..%2f..%2fsecret",
                                              "..%5csecret",
                                              "..\\secret",
                                              "%2e%2e%5csecret",
                                              "..%255csecret",
                                              "%252e%252e/secret",
                                              "%252e%252e%252fsecret",
                                              "..%c0%afsecret",
                                              "..%c1%9csecret",
                                              "%c0%ae%c0%ae/secret",
                                              "%e0%80%ae%e0%80%ae/secret",
                                              "..;/secret",
                                              "..%00/secret",
                                              "a.txt%00/../../secret",
                                              "%00",
                                              "..%0d%0a/secret",
                                              "/etc/passwd",
                                              "//etc/passwd",
                                              "%2fetc%2fpasswd",
                                              "/%2fetc/passwd",
                                              "out",
                                              "up",
                                              "parent",
                                              "parent/",
                                              "parent/secret",
                                              "parent/root2/a.txt",
                                              "parent/parent/etc/passwd",
                                              "sub_link/..",
                                              "sub_link/../../secret",
                                              "sub/empty/../../../secret",
                                              "....//secret",
                                              "..../secret",
                                              ".../secret",
                                              "..//secret",
                                              "%2e%2e//secret",
                                              "sub/%2e%2e/%2e%2e/secret",
                                              "sub/.%2e/.%2e/secret",
                                              "a.txt/../../secret",
                                              "a.txt/..",
                                              "pipe",
                                              "pipe/..",
                                              "%",
                                              "%2",
                                              "%zz",
                                              "%u002e%u002e/secret",
                                              "..%uff0fsecret",
                                              "~root",
                                              "C:/secret",
                                              "file:///secret",
                                              "proc/self/fd/3",
                                              "parent/../secret",
                                              "inner/../../secret",
                                              "sub/",
                                              "",
                                              "/",
                                              "//"};
  return paths;
}

// The root as the mutations see it: whatever is opened must be below it.
class hostile_requests {
 public:
  explicit hostile_requests(const folder& files)
      : root_(files.root().string()),
        refusing_(root_, root_directory::symlinks::refuse),
        following_(root_, root_directory::symlinks::inside) {}

  void check(const std::string& rest) {
    for (const bool hidden : {false, true}) {
      const auto path = path_below_root(rest, hidden);
      if (!path) continue;
      ++accepted;
      EXPECT_FALSE(path->starts_with('/')) << rest;
      EXPECT_EQ(path->find('\0'), path->npos) << rest;
      check_opened(rest, refusing_.open(*path, root_directory::lookup_scope::any));
      check_opened(rest, refusing_.open(*path, root_directory::lookup_scope::cached));
      check_opened(rest, following_.open(*path, root_directory::lookup_scope::any));
      check_opened(rest, following_.open_by_segments(*path));
    }
  }
  int accepted = 0;
  int opened = 0;

 private:
  void check_opened(const std::string& rest, const std::expected<gyre::unique_fd, int>& result) {
    if (!result) return;
    ++opened;
    const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(result->get()));
    EXPECT_TRUE(path == root_ || path.string().starts_with(root_ + '/')) << rest << " is " << path;
  }

  std::string root_;
  root_directory refusing_;
  root_directory following_;
};

std::string mutated(std::string path, std::mt19937& random) {
  static const std::vector<std::string> pieces{
      "..", "/",   "%2e",     "%2f",     "%2F",    "%00", "%5c", "\\",
      ".",  "../", "%2e%2e/", "sub",     "root",   "out", "up",  "a.txt",
      "%",  "//",  "%25",     "parent/", "secret", "\0",  "~",   "sub_link/"};
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random()) % limit; };
  for (std::size_t count = 1 + below(4); count != 0; --count) {
    const std::size_t at = below(path.size() + 1);
    switch (below(4)) {
      case 0: path.insert(at, pieces[below(pieces.size())]); break;
      case 1: path.erase(at, 1 + below(3)); break;
      case 2:
        if (at < path.size()) path[at] = static_cast<char>(random());
        break;
      default: path.insert(at, hostile_paths()[below(hostile_paths().size())]);
    }
  }
  return path;
}

TEST(HttpFileServerRoot, NothingOutsideIsOpened) {
  const folder files;
  hostile_requests requests(files);
  for (const std::string& path : hostile_paths()) {
    requests.check(path);
    requests.check(gyre::http::encode_component(path));
  }
  EXPECT_GT(requests.opened, 0);
  std::mt19937 random(15);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same ones each time
  for (int i = 0; i != 30'000; ++i) {
    const std::string& from = hostile_paths()[random() % hostile_paths().size()];
    requests.check(mutated(from, random));
  }
  EXPECT_GT(requests.accepted, 1000);
}

TEST_F(HttpFileServer, NothingOutsideIsServed) {
  for (const bool follow : {false, true}) {
    serve({.list_directories = true, .hidden_files = true, .follow_symlinks = follow});
    for (const std::string& path : hostile_paths()) {
      const answer got = get("/" + path);
      EXPECT_THAT(got.body, Not(HasSubstr(secret))) << path;
      EXPECT_THAT(got.body, Not(HasSubstr("root:"))) << path;
      EXPECT_THAT(got.body, Not(HasSubstr("root2"))) << path;
      EXPECT_THAT(got.status, testing::AnyOf("200", "301", "400", "404")) << path;
    }
  }
}

// Has openat2() fail with EPERM for the rest of the calling thread's life: for this path only, or
// for any.
void forbid_openat2(const char* path) {
  const auto address = reinterpret_cast<std::uintptr_t>(path);
  const auto low = static_cast<std::uint32_t>(address);
  const auto high = static_cast<std::uint32_t>(std::uint64_t{address} >> 32U);
  const auto load = [](std::size_t offset) {
    return ::sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  };
  const auto allow_unless = [](std::uint32_t value, std::uint8_t skipped) {
    return ::sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
  };
  constexpr std::size_t argument = offsetof(::seccomp_data, args) + sizeof(std::uint64_t);
  std::vector<::sock_filter> program{load(offsetof(::seccomp_data, nr)),
                                     allow_unless(SYS_openat2, path == nullptr ? 1 : 5)};
  if (path != nullptr) {
    program.insert(program.end(), {load(argument), allow_unless(low, 3), load(argument + 4),
                                   allow_unless(high, 1)});
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const ::sock_fprog filter{.len = static_cast<unsigned short>(program.size()),
                            .filter = program.data()};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0), 0);
}

// As a scanner of files may forbid it (fanotify): that says nothing of the kernel.
TEST(HttpFileServerRoot, AFileThatIsForbiddenChangesNothingForOthers) {
  const folder files;
  const root_directory root(files.root().string(), root_directory::symlinks::inside);
  const std::string forbidden = "a.txt";
  const std::string link = "inner";
  std::thread([&] {
    forbid_openat2(forbidden.c_str());
    const auto opened = root.open(forbidden, root_directory::lookup_scope::any);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error(), EPERM);
    EXPECT_TRUE(root.open(link, root_directory::lookup_scope::any).has_value())
        << "symlinks are followed as before";
  }).join();
}

TEST(HttpFileServerRoot, OpensWithoutTheCallWhereNothingMayUseIt) {
  const folder files;
  const root_directory root(files.root().string(), root_directory::symlinks::inside);
  std::thread([&] {
    forbid_openat2(nullptr);
    EXPECT_TRUE(root.open("a.txt", root_directory::lookup_scope::any).has_value());
    EXPECT_FALSE(root.open("inner", root_directory::lookup_scope::any).has_value());
  }).join();
}

TEST(HttpFileServerRoot, OpensBySegmentsAsTheKernelDoes) {
  const folder files;
  const root_directory root(files.root().string(), root_directory::symlinks::refuse);
  for (const std::string_view path :
       {"", "a.txt", "sub/", "sub", "sub/b c.html", "sub/empty/", "none", "sub/none", "a.txt/x",
        "out", "up", "parent/secret", "parent/", "inner", "sub_link/b c.html", "pipe"}) {
    const std::string name(path);
    const auto one = root.open(name, root_directory::lookup_scope::any);
    const auto other = root.open_by_segments(path);
    EXPECT_EQ(one.has_value(), other.has_value()) << path;
  }
}

}  // namespace
}  // namespace http_file_server_test
