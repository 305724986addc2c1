package ai.edgedec.core;

import static ai.edgedec.core.Checks.contains;
import static ai.edgedec.core.Checks.problem;
import static ai.edgedec.core.Checks.same;

import java.io.File;

final class IncomingChecks {
    private IncomingChecks() {}

    static void testSharedTextIsTaken(File folder) throws Exception {
        same(Incoming.shared("text/plain", " What is 2+2? \n"), "What is 2+2?");
        same(Incoming.shared("TEXT/HTML", new StringBuilder("x")), "x");
        same(Incoming.shared(null, "x"), "x");
    }

    static void testPicturesAreRefusedInOneLineWithOrWithoutACaption(File folder) throws Exception {
        same(problem(() -> Incoming.shared("image/png", null)), "models here read text, no pictures (share or type text)");
        contains(problem(() -> Incoming.shared("Image/*", "a caption")), "no pictures");
        contains(problem(() -> Incoming.shared("audio/ogg", null)), "no sounds");
        contains(problem(() -> Incoming.shared("video/mp4", null)), "no films");
        contains(problem(() -> Incoming.shared("application/pdf", null)), "no files");
        contains(problem(() -> Incoming.shared("*/*", null)), "no files");
    }

    static void testNothingAndTooMuchAreRefused(File folder) throws Exception {
        contains(problem(() -> Incoming.shared("text/plain", null)), "there is no text in it");
        contains(problem(() -> Incoming.shared("text/plain", " \n")), "there is no text in it");
        String most = new String(new char[Incoming.MOST]).replace('\0', 'x');
        same(Incoming.shared("text/plain", most + " ").length(), Incoming.MOST);
        contains(problem(() -> Incoming.shared("text/plain", most + "x")), "more than 100000 characters");
    }

    static void testAClipWithTextIsPastedAndAPictureIsNot(File folder) throws Exception {
        Incoming.check(null);
        Incoming.check(new String[0]);
        Incoming.check(new String[] {"image/png", "text/html"});
        contains(problem(() -> Incoming.check(new String[] {"image/png"})), "no pictures");
        contains(problem(() -> Incoming.check(new String[] {"text"})), "no files");
    }
}
