package silf.jojo.core;

/** Files of the client for nodes below (lane 1). */
final class FileService {
    FileService(LocalNode node) {}

    void take(Arrived message) {}
}
