// The TensorFlow that the library was compiled for. sluice.tensorflow looks for this text before it
// loads the library, because TensorFlow's binary interface changes from version to version.
extern "C" __attribute__((used, visibility("default"))) const char sluice_tensorflow_version[] =
    "sluice_tensorflow built for " SLUICE_TENSORFLOW_VERSION;
