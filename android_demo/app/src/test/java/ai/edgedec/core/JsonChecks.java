package ai.edgedec.core;

import static ai.edgedec.core.Checks.contains;
import static ai.edgedec.core.Checks.problem;
import static ai.edgedec.core.Checks.same;

import java.io.File;

final class JsonChecks {
    private JsonChecks() {}

    static void testValuesComeBack(File folder) throws Exception {
        String text = "{\"a\":[1,-2,true,null,2.5],\"b\":{\"c\":\"x\\\"\\\\\\n\\u0001\"},\"d\":[],\"e\":{}}";
        same(Json.write(Json.parse(text)), text);
    }

    static void testEveryTextComesBack(File folder) throws Exception {
        String text = "\ud83d\ude00 \u00e9 \ud800 \" \\ \b\f\n\r\t";
        same(Json.parse(Json.write(text)), text);
    }

    static void testBrokenTextsAreProblems(File folder) throws Exception {
        String[] broken = {"", "{", "[1,", "{\"a\"}", "\"\\q\"", "\"\\u12", "1 2", "tru", "-", "{\"a\":1,}", "\"a\nb\"", "99999999999999999999"};
        for (String text : broken) contains(problem(() -> Json.parse(text)), "not JSON");
        StringBuilder deep = new StringBuilder();
        for (int i = 0; i < 100_000; ++i) deep.append('[');
        contains(problem(() -> Json.parse(deep.toString())), "nested too deeply");
    }

    static void testNamesThatLeaveTheFolderAreRefused(File folder) throws Exception {
        for (String name : new String[] {"../x", "/x", "a//b", "a/../b", ".x", "a\\b", "", "a/b/c/d/e/f", "device.json"})
            contains(problem(() -> FileList.parse("device.json", StoreChecks.device("m", name, 1, Hash.of(new byte[1])))), "not the name of a file");
        String two = "\"A\":{\"bytes\":1,\"sha256\":\"" + Hash.of(new byte[1]) + "\"},\"a\":{\"bytes\":1,\"sha256\":\"" + Hash.of(new byte[1]) + "\"}";
        contains(problem(() -> FileList.parse("device.json", StoreChecks.head("m") + two + "}}")), "two files");
    }

    static void testSizesAndHashesAreChecked(File folder) throws Exception {
        contains(problem(() -> FileList.parse("device.json", StoreChecks.device("m", "x", -1, Hash.of(new byte[1])))), "size");
        contains(problem(() -> FileList.parse("device.json", StoreChecks.device("m", "x", 1, "abc"))), "SHA-256");
        contains(problem(() -> FileList.parse("device.json", "{\"format\":\"zip\"}")), "format");
        contains(problem(() -> FileList.parse("manifest.json", "[1]")), "manifest.json is broken");
    }
}
