// SPDX-License-Identifier: Apache-2.0
// A program without gyre that loads a plug-in, uses it, and unloads it, again and again: also while
// threads live on that have used it, and give back what they hold of gyre when they end.
#include <cstdio>
#include <future>
#include <thread>

#include <dlfcn.h>

namespace {

constexpr int count = 1000;

// Whether the plug-in works on this thread, which keeps it no longer than that.
bool load_use_and_unload(const char* path) {
  void* const plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return false;
  }
  const auto run = reinterpret_cast<int (*)(int)>(dlsym(plugin, "run"));
  const bool good = run != nullptr && run(count) == count;
  return dlclose(plugin) == 0 && good;
}

}  // namespace

int main(int, char** arguments) {
  const char* const path = arguments[1];
  bool good = true;
  for (int round = 0; round < 10; ++round) {
    std::promise<bool> unloaded;
    std::promise<void> may_end;
    std::thread user([&] {
      unloaded.set_value(load_use_and_unload(path));
      may_end.get_future().wait();
    });
    good = unloaded.get_future().get() && good;
    may_end.set_value();  // the plug-in is unloaded, and the thread that has used it ends
    user.join();
  }
  good = load_use_and_unload(path) && good;
  std::puts(good ? "plug-in: good" : "plug-in: bad");
  return good ? 0 : 1;
}
