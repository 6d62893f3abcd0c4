// Another library of a process that exports oneDNN's functions, as torch and TensorFlow bring one:
// whoever reaches it stops. The first five are called by Sluice, the others by oneDNN itself.
#include <cstdio>
#include <cstdlib>

namespace {

[[noreturn]] void stop(const char* function) {
  std::fprintf(stderr, "%s of another library was called\n", function);
  std::abort();
}

}  // namespace

extern "C" {

void dnnl_engine_create() { stop(__func__); }
void dnnl_memory_create() { stop(__func__); }
void dnnl_primitive_create() { stop(__func__); }
void dnnl_primitive_execute() { stop(__func__); }
void dnnl_stream_create() { stop(__func__); }

void dnnl_engine_get_count() { stop(__func__); }
void dnnl_memory_desc_equal() { stop(__func__); }
void dnnl_memory_desc_init_by_strides() { stop(__func__); }
void dnnl_memory_desc_init_by_tag() { stop(__func__); }
void dnnl_primitive_desc_query() { stop(__func__); }
}
