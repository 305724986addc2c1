package ai.edgedec.core;

import static ai.edgedec.core.Checks.contains;
import static ai.edgedec.core.Checks.isTrue;
import static ai.edgedec.core.Checks.problem;
import static ai.edgedec.core.Checks.same;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

final class DownloaderChecks {
    private DownloaderChecks() {}

    /** A server of files on this machine, with faults that can be ordered. */
    private static final class Site implements AutoCloseable {
        final HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        final List<String> requests = new ArrayList<>();
        Map<String, byte[]> files;
        boolean ranges = true;
        int breaks;
        int refusals;
        int status = 503;

        Site(Map<String, byte[]> files) throws IOException {
            this.files = files;
            server.createContext("/", this::answer);
            server.start();
        }

        String address() {
            return "http://" + server.getAddress().getAddress().getHostAddress() + ":" + server.getAddress().getPort() + "/folder";
        }

        private void answer(HttpExchange exchange) throws IOException {
            String name = exchange.getRequestURI().getPath().replaceFirst("^/folder/", "");
            String range = exchange.getRequestHeaders().getFirst("Range");
            requests.add(name + (range == null ? "" : " " + range));
            byte[] data = files.get(name);
            if (data == null || refusals > 0) {
                if (data != null) --refusals;
                exchange.sendResponseHeaders(data == null ? 404 : status, -1);
                exchange.close();
                return;
            }
            int from = range == null || !ranges ? 0 : Integer.parseInt(range.replaceAll("bytes=(\\d+)-", "$1"));
            if (from > 0) exchange.getResponseHeaders().set("Content-Range", "bytes " + from + "-" + (data.length - 1) + "/" + data.length);
            exchange.sendResponseHeaders(from > 0 ? 206 : 200, data.length - from == 0 ? -1 : data.length - from);
            boolean breaking = name.equals("weights.bin") && breaks > 0;
            int count = breaking ? Math.min(1_200_000, data.length - from) : data.length - from;
            if (breaking) --breaks;
            exchange.getResponseBody().write(data, from, count);
            exchange.close();
        }

        @Override
        public void close() {
            server.stop(0);
        }
    }

    private static File fetch(BundleStore store, String address) throws Problem {
        return new Downloader(address, Progress.NONE, 1).into(store, list -> {});
    }

    static void testAModelComesIn(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        try (Site site = new Site(StoreChecks.model("m"))) {
            store.verify(fetch(store, site.address()), Progress.NONE);
            String hash = Hash.of(site.files.get("device.json"));
            fetch(store, site.address() + "/#sha256=" + hash);
            contains(problem(() -> fetch(store, site.address() + "#sha256=" + hash.replace('a', 'b'))), "names by its hash");
        }
    }

    static void testABrokenLineIsResumedByRange(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        try (Site site = new Site(StoreChecks.model("m"))) {
            site.breaks = 2;
            store.verify(fetch(store, site.address()), Progress.NONE);
            int resumed = 0;
            for (String one : site.requests) if (one.startsWith("weights.bin bytes=")) ++resumed;
            same(resumed, 2);
        }
    }

    static void testAServerWithoutRangesWorks(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        try (Site site = new Site(StoreChecks.model("m"))) {
            site.ranges = false;
            site.breaks = 1;
            store.verify(fetch(store, site.address()), Progress.NONE);
        }
    }

    static void testALineThatBreaksAtTheSamePlaceEverywhereIsGivenUp(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        try (Site site = new Site(StoreChecks.model("m"))) {
            site.ranges = false;
            site.breaks = 1000;
            contains(problem(() -> fetch(store, site.address())), "weights.bin ended after 1200000");
        }
    }

    static void testABusyServerIsAskedAgainAndADeadOneNamed(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        String address;
        try (Site site = new Site(StoreChecks.model("m"))) {
            address = site.address();
            site.refusals = 3;
            store.verify(fetch(store, site.address()), Progress.NONE);
            site.refusals = 1000;
            contains(problem(() -> fetch(store, site.address())), "answered 503");
            site.refusals = 1;
            site.status = 403;
            contains(problem(() -> fetch(store, site.address())), "no access");
        }
        contains(problem(() -> fetch(store, address)), "cannot be reached");
    }

    static void testWhatIsNoModelIsSaid(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        try (Site site = new Site(StoreChecks.model("m"))) {
            contains(problem(() -> fetch(store, site.address() + "/elsewhere")), "there is no model at");
        }
        contains(problem(() -> fetch(store, "ftp://example.org/x")), "begins with https://");
        contains(problem(() -> fetch(store, "smollm2")), "is no address");
    }

    static void testAnExchangedFileIsRefused(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        try (Site site = new Site(StoreChecks.model("m"))) {
            site.files.get("weights.bin")[9] ^= 1;
            contains(problem(() -> fetch(store, site.address())), "fails its SHA-256");
        }
        isTrue(store.models().isEmpty(), "nothing is in place");
    }
}
